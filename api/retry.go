package api

import (
	"net/http"

	"github.com/toolpark/toolpark"
)

// retryTask begins the next generation of a task that failed, timed out or is uncertain.
func (s *Server) retryTask(w http.ResponseWriter, r *http.Request) error {
	if err := noFields(w, r); err != nil {
		return err
	}
	id, err := s.readableTask(r)
	if err != nil {
		return err
	}
	begun, err := s.Park.Retry(r.Context(), id)
	if err != nil {
		return err
	}
	s.Delivery.Start([]*toolpark.Task{begun}) // the answer does not wait: what is lost the recovery loop finds
	task, err := s.DB.GenerationDetail(r.Context(), id, begun.Generation)
	if err != nil {
		return err
	}
	return writeTask(w, task)
}

// abandonTask gives a failure up.
func (s *Server) abandonTask(w http.ResponseWriter, r *http.Request) error {
	if err := noFields(w, r); err != nil {
		return err
	}
	id, err := s.readableTask(r)
	if err != nil {
		return err
	}
	if err := s.Park.Abandon(r.Context(), member(r), id); err != nil {
		return err
	}
	task, err := s.DB.TaskDetail(r.Context(), id)
	if err != nil {
		return err
	}
	return writeTask(w, task)
}
