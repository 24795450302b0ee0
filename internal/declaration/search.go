package declaration

import (
	"encoding/json/jsontext"
	"errors"
)

// ErrBlankQuery is a search for nothing.
var ErrBlankQuery = errors.New("the query is blank; give words to look for, or the exact name of a tool")

// Search finds tools of the context.
func (c *Context) Search(query string, limit int) (jsontext.Value, error) {
	return nil, errors.New("soon")
}

// RunnersList lists the frozen candidates.
func (c *Context) RunnersList() (jsontext.Value, error) {
	return nil, errors.New("soon")
}
