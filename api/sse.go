package api

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/toolpark/toolpark"
)

const (
	heartbeat    = 15 * time.Second // between two comment lines
	streamWindow = 10 * time.Second // how long one write may wait for a reader that stalls
)

// stream writes server-sent events. Close it before the handler returns.
type stream struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	ctx     context.Context
	end     context.CancelFunc
	beating sync.WaitGroup
}

// newStream answers 200 and begins a stream of events. It ends when the caller goes away, when a
// write fails, or when the server shuts down: Done tells.
func (s *Server) newStream(w http.ResponseWriter, r *http.Request) (*stream, error) {
	ctx, end := context.WithCancel(r.Context())
	st := &stream{w: w, control: http.NewResponseController(w), ctx: ctx, end: end}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no") // nginx holds events back otherwise
	w.WriteHeader(http.StatusOK)
	if err := st.write([]byte(": open\n\n")); err != nil {
		end()
		return nil, err
	}
	st.beating.Go(func() { st.beat(s.draining) })
	return st, nil
}

// Done is closed when nobody reads the stream any more or nobody may write to it.
func (st *stream) Done() <-chan struct{} { return st.ctx.Done() }

// Event sends data as JSON. An event with an id is durable: a caller that reconnects names it in
// Last-Event-ID.
func (st *stream) Event(id, name string, data any) error {
	text, err := json.Marshal(data, wire)
	if err != nil {
		return err
	}
	var frame bytes.Buffer
	if id != "" {
		frame.WriteString("id: " + id + "\n")
	}
	frame.WriteString("event: " + name + "\ndata: ")
	frame.Write(text) // one line: JSON escapes line breaks and the encoder makes none
	frame.WriteString("\n\n")
	return st.write(frame.Bytes())
}

// Close ends the stream, waits until nothing writes to it, and lifts the write deadline, which the
// connection would carry into the next request on it.
func (st *stream) Close() {
	st.end()
	st.beating.Wait()
	_ = st.control.SetWriteDeadline(time.Time{})
}

func (st *stream) write(frame []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.ctx.Err(); err != nil {
		return err
	}
	_ = st.control.SetWriteDeadline(time.Now().Add(streamWindow))
	_, err := st.w.Write(frame)
	if err == nil {
		err = st.control.Flush()
	}
	if err != nil {
		st.end()
	}
	return err
}

func (st *stream) beat(draining <-chan struct{}) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_ = st.write([]byte(": alive\n\n")) // a failure ends the stream
		case <-draining:
			st.end()
			return
		case <-st.ctx.Done():
			return
		}
	}
}

// lastEventID reads where a caller that reconnects left off; 0 when it starts afresh.
func lastEventID(r *http.Request) (int64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 0 {
		return 0, toolpark.Errorf(toolpark.CodeParameterInvalid, "Last-Event-ID must be the id of an event of this stream.")
	}
	return id, nil
}
