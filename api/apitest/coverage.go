package apitest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"
)

// Coverage records which operations of the document were exercised, and with which answers. Its zero
// value is empty and ready; it is safe for concurrent use.
type Coverage struct {
	mu   sync.Mutex
	seen map[answer]bool
}

type answer struct {
	operation string // an operationId
	status    int
}

func (c *Coverage) add(operation string, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[answer]bool{}
	}
	c.seen[answer{operation, status}] = true
}

// Statuses are the HTTP statuses that an operation, named by its operationId, has answered with, in
// ascending order.
func (c *Coverage) Statuses(operation string) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var statuses []int
	for a := range c.seen {
		if a.operation == operation {
			statuses = append(statuses, a.status)
		}
	}
	slices.Sort(statuses)
	return statuses
}

// Unserved are the operationIds of the document that have not answered with success, sorted.
func (c *Coverage) Unserved(t testing.TB) []string {
	t.Helper()
	doc, err := loadDocument()
	require.NoError(t, err)
	unserved := []string{}
	doc.eachOperation(func(_, _ string, operation *openapi3.Operation) {
		served := func(status int) bool { return status < 300 }
		if !slices.ContainsFunc(c.Statuses(operation.OperationID), served) {
			unserved = append(unserved, operation.OperationID)
		}
	})
	slices.Sort(unserved)
	return unserved
}

// Unseen are the documented answers that nobody has met, each as "operationId status", sorted.
func (c *Coverage) Unseen(t testing.TB) []string {
	t.Helper()
	doc, err := loadDocument()
	require.NoError(t, err)
	unseen := []string{}
	doc.eachOperation(func(_, _ string, operation *openapi3.Operation) {
		seen := c.Statuses(operation.OperationID)
		for status := range operation.Responses.Map() {
			if !slices.ContainsFunc(seen, func(s int) bool { return fmt.Sprint(s) == status }) {
				unseen = append(unseen, operation.OperationID+" "+status)
			}
		}
	})
	slices.Sort(unseen)
	return unseen
}

// RequireRoutes fails the test unless the document describes exactly the routes of the tree, where HEAD
// goes wherever GET does, except to a stream. Path parameters may have other names there.
func RequireRoutes(t testing.TB, tree chi.Routes) {
	t.Helper()
	doc, err := loadDocument()
	require.NoError(t, err)
	var documented, served []string
	doc.eachOperation(func(method, path string, operation *openapi3.Operation) {
		documented = append(documented, method+" "+anonymous(path))
		if method == http.MethodGet && !streams(operation) {
			documented = append(documented, http.MethodHead+" "+anonymous(path))
		}
	})
	require.NoError(t, chi.Walk(tree, func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served = append(served, method+" "+anonymous(strings.TrimSuffix(path, "/")))
		return nil
	}))
	slices.Sort(documented)
	slices.Sort(served)
	require.Equal(t, documented, served)
}

// anonymous drops the names of a path's parameters.
func anonymous(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if strings.HasPrefix(segment, "{") {
			segments[i] = "{}"
		}
	}
	return strings.Join(segments, "/")
}
