package rest

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/toolpark/toolpark"
)

// Error is a failure that the server answered. It unwraps to a *toolpark.Error, whose Details hold
// jsontext.Value, so that numbers keep their digits.
type Error struct {
	Status     int           // the HTTP status
	RetryAfter time.Duration // what a 429 or 503 asked to wait; zero when it did not say
	Err        *toolpark.Error
}

func (e *Error) Error() string { return fmt.Sprintf("%v (HTTP %d)", e.Err, e.Status) }

func (e *Error) Unwrap() error { return e.Err }

// Final tells whether repeating the request cannot help: the server refused it with a code. Lost
// connections, 5xx, 429, and a 4xx that no Toolpark server wrote (a proxy between two deployments, say)
// are worth repeating.
func Final(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status < 500 && e.Status != http.StatusTooManyRequests && e.Err.Code != ""
	}
	var own *toolpark.Error // made by this client: the request could not even be written
	return errors.As(err, &own)
}

// CodeOf is the code of a refusal, or "" when err is none.
func CodeOf(err error) toolpark.Code {
	if e, ok := errors.AsType[*toolpark.Error](err); ok {
		return e.Code
	}
	return ""
}

// newError reads {"error":{"code","message",…}}. A body of another shape gives an Error without a code.
func newError(res *http.Response, body []byte) *Error {
	e := &Error{Status: res.StatusCode, Err: &toolpark.Error{Message: http.StatusText(res.StatusCode)}}
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	var answer struct {
		Error map[string]jsontext.Value `json:"error"`
	}
	if json.Unmarshal(body, &answer, raw) != nil {
		return e
	}
	for name, value := range answer.Error {
		var text string
		isText := json.Unmarshal(value, &text) == nil
		switch {
		case name == "code" && isText:
			e.Err.Code = toolpark.Code(text)
		case name == "message" && isText:
			e.Err.Message = text
		default:
			e.Err.With(name, value)
		}
	}
	return e
}
