package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/api"
)

func TestEveryCodeHasAStatus(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../error.go", nil, 0)
	require.NoError(t, err)
	codes := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		status, ok := api.Status(toolpark.Code(code))
		require.True(t, ok, "%s has no HTTP status", spec.Names[0].Name)
		require.GreaterOrEqual(t, status, 400)
		codes++
		return true
	})
	require.Greater(t, codes, 50)
}

func TestOneErrorShape(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	tn := d.newTenant()

	t.Run("no such route", func(t *testing.T) {
		d.send("GET", "/", "", "").refused(http.StatusNotFound, toolpark.CodeNotFound)
		d.send("GET", "/agent_api/v1/nothing", "", "").refused(http.StatusNotFound, toolpark.CodeNotFound)
		d.send("GET", "/agent_api/v1/executors/", tn.humanBearer, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
	})

	t.Run("another method", func(t *testing.T) {
		a := d.send("DELETE", "/agent_api/v1/executors", "", "").refused(http.StatusMethodNotAllowed, toolpark.CodeMethodNotAllowed)
		require.Equal(t, "GET, HEAD", a.Header.Get("Allow"))
		d.send("BREW", "/nothing", "", "").refused(http.StatusNotFound, toolpark.CodeNotFound)
		a = d.send("POST", "/healthz", "", "").refused(http.StatusMethodNotAllowed, toolpark.CodeMethodNotAllowed)
		require.Equal(t, "GET, HEAD", a.Header.Get("Allow"))
	})

	t.Run("an unknown, repeated or broken query parameter", func(t *testing.T) {
		for _, query := range []string{"limits=1", "limit=1&limit=2", "limit=%zz", "LIMIT=1", "a;b"} {
			a := d.sendBad("GET", "/agent_api/v1/executors?"+query, tn.humanBearer, "")
			a.refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		}
	})

	t.Run("headers of every answer", func(t *testing.T) {
		first, second := d.send("GET", "/healthz", "", ""), d.send("GET", "/healthz", "", "")
		require.NotEmpty(t, first.Header.Get("X-Request-Id"))
		require.NotEqual(t, first.Header.Get("X-Request-Id"), second.Header.Get("X-Request-Id"))
		require.Equal(t, "nosniff", first.Header.Get("X-Content-Type-Options"))
		require.Equal(t, "no-store", first.Header.Get("Cache-Control"))
	})
}

func TestBodies(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	tn := d.newTenant()
	const path = "/agent_api/v1/executor/announcement"
	put := func(body string, headers ...string) answer {
		return d.sendBad("PUT", path, tn.runnerBearer, body, headers...)
	}

	t.Run("what is no acceptable JSON", func(t *testing.T) {
		for name, body := range map[string]string{
			"nothing":            "",
			"cut off":            `{"tools":[`,
			"text after":         `{"tools":[]} x`,
			"two documents":      `{"tools":[]}{}`,
			"a key twice":        `{"tools":[],"tools":[]}`,
			"a nested key twice": `{"tools":[],"environment":{"a":1,"a":2}}`,
			"NaN":                `{"tools":[],"environment":{"a":NaN}}`,
			"a huge exponent":    `{"tools":[],"environment":{"a":1e131072}}`,
			"a lone surrogate":   `{"tools":[],"environment":{"a":"x\ud83dy"}}`,
			"invalid UTF-8":      "{\"tools\":[],\"environment\":{\"a\":\"\xff\"}}",
			"nesting of 20 000":  `{"tools":[],"environment":{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}}`,
			"nesting of 129":     `{"tools":[],"environment":{"a":` + strings.Repeat("[", 129) + strings.Repeat("]", 129) + `}}`,
			"a number of 1 001":  `{"tools":[],"environment":{"a":` + strings.Repeat("1", 1001) + `}}`,
		} {
			t.Run(name, func(t *testing.T) {
				put(body, "Content-Type", "application/json").refused(http.StatusBadRequest, toolpark.CodeBadRequest)
			})
		}
	})

	t.Run("what the route does not know", func(t *testing.T) {
		for name, body := range map[string]string{
			"a field":                 `{"tools":[],"wishes":[]}`,
			"another case of a field": `{"tools":[],"Environment":{}}`,
			"a list":                  `[]`,
			"a string":                `"tools"`,
			"null":                    `null`,
		} {
			t.Run(name, func(t *testing.T) {
				put(body).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
			})
		}
	})

	t.Run("another media type", func(t *testing.T) {
		for _, mediaType := range []string{"", "text/plain", "application/xml", "application/json; charset=latin1", "multipart/form-data; boundary=x", ";"} {
			put(`{"tools":[]}`, "Content-Type", mediaType).refused(http.StatusUnsupportedMediaType, toolpark.CodeUnsupportedMediaType)
		}
		put(`{"tools":[]}`, "Content-Encoding", "gzip").refused(http.StatusUnsupportedMediaType, toolpark.CodeUnsupportedMediaType)
		for _, mediaType := range []string{"application/json; charset=utf-8", "application/json; charset=Utf-8", `Application/JSON;charset="UTF-8"`} {
			put(`{"tools":[]}`, "Content-Type", mediaType).ok(http.StatusOK)
		}
		put(`{"tools":[]}`, "Content-Encoding", "identity").ok(http.StatusOK)
		put(`{"tools":[]}`, "Content-Encoding", "Identity").ok(http.StatusOK)
	})

	t.Run("too large", func(t *testing.T) {
		body := `{"tools":[],"environment":{"a":"` + strings.Repeat("x", toolpark.MaxBody) + `"}}`
		put(body).refused(http.StatusRequestEntityTooLarge, toolpark.CodeContentTooLarge)
	})
}
