package park

import (
	"context"
	"sync"
	"uuid"

	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/postgres"
)

// contextLimit is how many frozen contexts a process keeps parsed; at a megabyte each they are the
// largest thing it holds.
const contextLimit = 64

// contextCache keeps frozen contexts by their hash. They are immutable, so it never goes stale; when it
// is full it forgets any one of them.
type contextCache struct {
	mu     sync.Mutex
	parsed map[string]*declaration.Context
}

// Context is what a run may call, as it was frozen when the run was accepted.
func (p *Park) Context(ctx context.Context, run *postgres.Run) (*declaration.Context, error) {
	return p.context(ctx, p.DB.Pool, run.AccountID, run.ContextHash)
}

// context reads a frozen context through q, if it is not known already.
func (p *Park) context(ctx context.Context, q postgres.Querier, account uuid.UUID, hash []byte) (*declaration.Context, error) {
	key := account.String() + string(hash)
	c := &p.contexts
	c.mu.Lock()
	known := c.parsed[key]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	document, err := postgres.ContextDocument(ctx, q, account, hash)
	if err != nil {
		return nil, err
	}
	parsed, err := declaration.ParseContext(document)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parsed == nil {
		c.parsed = make(map[string]*declaration.Context, contextLimit)
	}
	for old := range c.parsed {
		if len(c.parsed) < contextLimit {
			break
		}
		delete(c.parsed, old)
	}
	c.parsed[key] = parsed
	return parsed, nil
}
