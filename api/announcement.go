package api

import (
	"net/http"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
)

// putAnnouncement replaces all that the executor serves. A refused announcement changes nothing.
func (s *Server) putAnnouncement(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, toolpark.MaxBody)
	if err != nil {
		return err
	}
	announcement, err := declaration.ParseAnnouncement(body)
	if err != nil {
		return err
	}
	self := executor(r)
	row, err := s.DB.Announce(r.Context(), self.Account, self.ID, announcement)
	if err != nil {
		return err
	}
	return writeSelf(w, row)
}
