package apitest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
)

// eventStream passes a stream on and hands every run of whole events to check.
type eventStream struct {
	body  io.ReadCloser
	rest  []byte // the beginning of an event whose end has not come yet
	check func(events []byte)
}

func (s *eventStream) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	s.rest = append(s.rest, p[:n]...)
	if end := bytes.LastIndex(s.rest, []byte("\n\n")); end >= 0 {
		end += len("\n\n")
		s.check(s.rest[:end])
		s.rest = bytes.Clone(s.rest[end:])
	}
	return n, err
}

func (s *eventStream) Close() error { return s.body.Close() }

// decodeEvents reads server-sent events as a list of objects with the fields id, event and data, the
// data parsed as JSON. Comments are skipped; any other field is an error.
func decodeEvents(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
	events := []any{}
	event := map[string]any{}
	var data []string
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			if data != nil {
				value, err := openapi3filter.JSONBodyDecoder(strings.NewReader(strings.Join(data, "\n")), nil, nil, nil)
				if err != nil {
					return nil, fmt.Errorf("data of event %d: %w", len(events), err)
				}
				event["data"] = value
			}
			if len(event) > 0 {
				events = append(events, event)
			}
			event, data = map[string]any{}, nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "": // a comment keeps the connection open
		case "data":
			data = append(data, value)
		case "id", "event":
			event[field] = value
		default:
			return nil, fmt.Errorf("event %d has an unknown field %q", len(events), field)
		}
	}
	return events, lines.Err()
}
