package rest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// silence is how long a stream may say nothing. The server writes a comment line every 15 s, so a longer
// silence is a dead connection.
const silence = 45 * time.Second

// maxLine bounds one line of a stream.
const maxLine = 1 << 20

// Message is one server-sent event.
type Message struct {
	ID   string // "" when the event is not durable
	Name string // the event's type
	Data []byte
}

// Stream is an open stream of server-sent events. One goroutine reads it.
type Stream struct {
	body   io.ReadCloser
	lines  *bufio.Reader
	watch  *time.Timer
	cancel context.CancelFunc
}

// Open opens a stream. It returns once the server has accepted, with an *Error when it refused.
func (c *Client) Open(ctx context.Context, r Request) (*Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	watch := time.AfterFunc(callTimeout, cancel)
	res, err := c.send(ctx, r, "text/event-stream")
	if err != nil {
		watch.Stop()
		cancel()
		return nil, err
	}
	s := &Stream{body: res.Body, lines: bufio.NewReaderSize(res.Body, 64<<10), watch: watch, cancel: cancel}
	if res.StatusCode != http.StatusOK {
		defer s.Close()
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxLine))
		return nil, newError(res, body)
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "text/event-stream" {
		s.Close()
		return nil, fmt.Errorf("%s is not an event stream but %q", r.Path, kind)
	}
	return s, nil
}

// Close ends the stream.
func (s *Stream) Close() {
	s.watch.Stop()
	s.cancel()
	_ = s.body.Close()
}

// Next waits for the next event. The end of the stream, by either side or by silence, is an error.
func (s *Stream) Next() (Message, error) {
	var m Message
	var data [][]byte
	for {
		line, err := s.line()
		if err != nil {
			return Message{}, err
		}
		if line == "" { // a blank line ends an event
			if data == nil {
				m = Message{}
				continue
			}
			m.Data = bytes.Join(data, []byte("\n"))
			return m, nil
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field { // the empty field is a comment
		case "id":
			m.ID = value
		case "event":
			m.Name = value
		case "data":
			data = append(data, []byte(value))
		}
	}
}

// line reads one line without its end.
func (s *Stream) line() (string, error) {
	s.watch.Reset(silence)
	var b []byte
	for {
		part, err := s.lines.ReadSlice('\n')
		b = append(b, part...)
		switch {
		case err == nil:
			return strings.TrimSuffix(string(b[:len(b)-1]), "\r"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", fmt.Errorf("the event stream ended: %w", err)
		case len(b) > maxLine:
			return "", errors.New("the event stream sent a line over 1 MiB")
		}
	}
}
