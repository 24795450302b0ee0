package api

import (
	"cmp"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// bodyTime is how long a caller may take to send its body.
const bodyTime = 30 * time.Second

// hurryBody stops a caller that sends a byte a minute, whoever it is: a request that is refused before
// its body is read is answered only once the rest has arrived, and that must not take for ever either.
func (s *Server) hurryBody(next http.Handler) http.Handler {
	limit := cmp.Or(s.bodyTime, bodyTime)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(limit))
		}
		next.ServeHTTP(w, r)
	})
}

// readBody reads a JSON body of at most limit bytes and refuses what is no acceptable JSON, before
// anything looks into it. The values at the exempt pointer patterns (/calls/*/arguments) are only
// passed over: their reader judges them.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, exempt ...string) (jsontext.Value, error) {
	if err := checkContentType(r); err != nil {
		return nil, err
	}
	body, err := readAll(w, r, limit)
	if err != nil {
		return nil, err
	}
	if err := strictjson.Check(body, exempt...); err != nil {
		return nil, err
	}
	return body, nil
}

// readOptionalBody is readBody for routes that may be called without a body, which reads as {}. A body
// whose length was not declared may turn out to be none.
func readOptionalBody(w http.ResponseWriter, r *http.Request, exempt ...string) (jsontext.Value, error) {
	if r.ContentLength > 0 {
		return readBody(w, r, toolpark.MaxBody, exempt...)
	}
	body, err := readAll(w, r, toolpark.MaxBody)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return jsontext.Value("{}"), nil
	}
	if err := checkContentType(r); err != nil {
		return nil, err
	}
	return body, strictjson.Check(body, exempt...)
}

// noFields reads the optional body of a route that takes no fields.
func noFields(w http.ResponseWriter, r *http.Request) error {
	body, err := readOptionalBody(w, r)
	if err != nil {
		return err
	}
	_, err = decode[struct{}](body)
	return err
}

// decode fills a T from a body that readBody accepted, and refuses fields that T does not know.
func decode[T any](body jsontext.Value) (T, error) {
	var v T
	err := strictjson.Decode(body, &v)
	return v, err
}

func checkContentType(r *http.Request) error {
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" || !strings.EqualFold(cmp.Or(params["charset"], "utf-8"), "utf-8") {
		return toolpark.Errorf(toolpark.CodeUnsupportedMediaType, "Send the body as Content-Type: application/json, in UTF-8.")
	}
	if !strings.EqualFold(cmp.Or(r.Header.Get("Content-Encoding"), "identity"), "identity") {
		return toolpark.Errorf(toolpark.CodeUnsupportedMediaType, "Send the body without a Content-Encoding.")
	}
	return nil
}

// readAll reads the whole body. The read deadline is lifted once it is there, since the server would
// take it for a lost connection during a long poll. Otherwise it stays: the server reads on.
func readAll(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	tooLarge := func() error {
		return toolpark.Errorf(toolpark.CodeContentTooLarge, "The body is larger than the %s this route takes.", byteSize(limit))
	}
	if r.ContentLength > limit {
		return nil, tooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge()
	}
	if err != nil {
		return nil, toolpark.Errorf(toolpark.CodeBadRequest, "The body ended before all of it had arrived.").Because(err)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

func byteSize(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
