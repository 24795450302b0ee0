package schema

import (
	"container/list"
	"crypto/sha256"
	"encoding/json/jsontext"
	"errors"
	"maps"
	"sync"

	"github.com/toolpark/toolpark"
)

// A compiled schema takes up to some eighty times the bytes of its document (thousands of short properties
// do), and no fewer than a few thousand.
const (
	compiledPerByte = 100
	compiledAtLeast = 4 << 10
	cachedAverage   = 64 << 10 // bytes that an entry may take on average
)

// Cache keeps compiled schemas by the bytes of their documents, the most recently used ones, within a bound
// on the memory that they take. Many
// goroutines may use it; a document that several ask for at once is compiled once. A refusal is kept
// like a schema, since it depends on the document alone.
type Cache struct {
	entries int

	mu     sync.Mutex
	weight int        // of all entries
	recent *list.List // of *cached, the most recent first
	byKey  map[cacheKey]*list.Element
}

type cacheKey struct {
	digest [sha256.Size]byte
	object bool
}

type cached struct {
	key     cacheKey
	weight  int                     // bytes that it may take
	compile func() (*Schema, error) // compiles at the first call
}

// NewCache makes a cache of at most the given number of schemas, at least one, and of 64 KiB for each of them
// all together. One that would take a quarter of that alone is compiled each time.
func NewCache(entries int) *Cache {
	return &Cache{entries: max(1, entries), recent: list.New(), byKey: map[cacheKey]*list.Element{}}
}

// Object is [CompileObject], remembered.
func (c *Cache) Object(document jsontext.Value) (*Schema, error) {
	return c.get(document, true, CompileObject)
}

// Any is [Compile], remembered.
func (c *Cache) Any(document jsontext.Value) (*Schema, error) {
	return c.get(document, false, Compile)
}

func (c *Cache) get(document jsontext.Value, object bool, compile func(jsontext.Value) (*Schema, error)) (*Schema, error) {
	key := cacheKey{digest: sha256.Sum256(document), object: object}
	weight := compiledAtLeast + compiledPerByte*len(document)
	if weight > c.limit()/4 {
		return compile(document)
	}
	s, err := c.entry(key, weight, func() (*Schema, error) { return compile(document) }).compile()
	if refusal, ok := errors.AsType[*toolpark.Error](err); ok {
		// Callers add details to an error of theirs; this one belongs to everybody.
		own := *refusal
		own.Details = maps.Clone(refusal.Details)
		return nil, &own
	}
	return s, err
}

// entry finds or adds the entry of a key. The compiling itself happens outside the lock.
func (c *Cache) entry(key cacheKey, weight int, compile func() (*Schema, error)) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, known := c.byKey[key]; known {
		c.recent.MoveToFront(at)
		return at.Value.(*cached)
	}
	entry := &cached{key: key, weight: weight, compile: sync.OnceValues(compile)}
	c.byKey[key] = c.recent.PushFront(entry)
	c.weight += weight
	for c.recent.Len() > c.entries || c.weight > c.limit() {
		oldest := c.recent.Remove(c.recent.Back()).(*cached)
		delete(c.byKey, oldest.key)
		c.weight -= oldest.weight
	}
	return entry
}

func (c *Cache) limit() int { return c.entries * cachedAverage }
