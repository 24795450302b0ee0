// Package rest sends JSON requests to Toolpark with one bearer and reads its answers, its errors and
// its event streams. It is what the agent's and the runner's clients share.
package rest

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/toolpark/toolpark"
)

// callTimeout bounds a request on top of what it asked the server to wait. The server itself waits up to
// ten seconds for a verdict.
const callTimeout = 30 * time.Second

// maxAnswer bounds what one answer may make this process hold: a round of 128 full results and some.
const maxAnswer = 256 << 20

// raw lets JSON through as its author wrote it, so that the server judges it and not this client: one bad
// call must not void the calls beside it.
var raw = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))

// pool keeps idle connections for as many parallel requests as a busy runner makes; the two that the
// standard transport keeps would have every other request dial anew.
var pool = func() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 256
	return &http.Client{Transport: t}
}()

// Client is one bearer at one server.
type Client struct {
	BaseURL string
	Token   string
	HTTP    *http.Client // nil: a shared client with enough idle connections
}

// Request is one call of a route.
type Request struct {
	Method string
	Path   string // as Path makes it
	Query  url.Values
	Header http.Header
	Body   any           // sent as JSON; nil sends no body
	Wait   time.Duration // how long the server may hold the answer back, sent as wait_ms
}

// Answer is what came back beside the body.
type Answer struct {
	Status int
	Date   time.Time // the server's clock, to the second; zero when it did not say
}

// Path joins segments, each escaped, to a path below /agent_api/v1.
func Path(segments ...string) string {
	var b strings.Builder
	b.WriteString("/agent_api/v1")
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// Do sends the request once and decodes a 2xx body into out, which may be nil. Anything else the server
// says is an *Error; an error of another type means that no answer arrived.
func (c *Client) Do(ctx context.Context, r Request, out any) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+r.Wait)
	defer cancel()
	res, err := c.send(ctx, r, "application/json")
	if err != nil {
		return Answer{}, err
	}
	defer res.Body.Close()
	answer := Answer{Status: res.StatusCode}
	answer.Date, _ = http.ParseTime(res.Header.Get("Date"))
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return answer, fmt.Errorf("read the answer of %s %s: %w", r.Method, r.Path, err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return answer, newError(res, body)
	}
	if out == nil || len(body) == 0 {
		return answer, nil
	}
	if err := json.Unmarshal(body, out, raw); err != nil {
		return answer, fmt.Errorf("decode the answer of %s %s: %w", r.Method, r.Path, err)
	}
	return answer, nil
}

// send makes the HTTP request; the caller closes the body.
func (c *Client) send(ctx context.Context, r Request, accept string) (*http.Response, error) {
	query := r.Query
	if r.Wait > 0 {
		if query == nil {
			query = url.Values{}
		}
		query.Set("wait_ms", strconv.FormatInt(min(r.Wait, toolpark.MaxWait).Milliseconds(), 10))
	}
	address := strings.TrimSuffix(c.BaseURL, "/") + r.Path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var body io.Reader
	if r.Body != nil {
		b, err := json.Marshal(r.Body, raw)
		if err != nil {
			return nil, toolpark.Errorf(toolpark.CodeBadRequest, "the request cannot be written as JSON: %v", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, address, body)
	if err != nil {
		return nil, toolpark.Errorf(toolpark.CodeBadRequest, "the server's URL is unusable: %v", err)
	}
	maps.Copy(req.Header, r.Header)
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set("Accept", accept)
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	h := c.HTTP
	if h == nil {
		h = pool
	}
	res, err := h.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.Path, unwrapURL(err))
	}
	return res, nil
}

// unwrapURL drops the address that net/http puts before its errors: ours says the route already.
func unwrapURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
