package schema_test

import (
	"encoding/json/jsontext"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/schema"
)

func TestCache(t *testing.T) {
	t.Parallel()
	number := func(i int) jsontext.Value {
		return jsontext.Value(fmt.Sprintf(`{"type":"object","maxProperties":%d}`, i))
	}
	t.Run("many askers share one schema", func(t *testing.T) {
		t.Parallel()
		cache := schema.NewCache(4)
		got := make([]*schema.Schema, 32)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				got[i], _ = cache.Object(number(1))
				got[i].Check(jsontext.Value(`{"a":1,"b":2}`))
			})
		}
		wg.Wait()
		require.NotNil(t, got[0])
		for _, s := range got {
			require.Same(t, got[0], s)
		}
	})
	t.Run("the least recently used goes", func(t *testing.T) {
		t.Parallel()
		cache := schema.NewCache(2)
		ask := func(i int) *schema.Schema {
			s, err := cache.Any(number(i))
			require.NoError(t, err)
			return s
		}
		first, second := ask(1), ask(2)
		require.Same(t, first, ask(1))
		ask(3) // 2 goes
		require.Same(t, first, ask(1))
		require.NotSame(t, second, ask(2))
	})
	t.Run("what takes more memory leaves room for less", func(t *testing.T) {
		t.Parallel()
		cache := schema.NewCache(8) // 512 KiB
		large := func(i int) jsontext.Value {
			return jsontext.Value(fmt.Sprintf(`{"type":"object","title":%q,"maxProperties":%d}`, strings.Repeat("x", 1000), i))
		}
		ask := func(document jsontext.Value) *schema.Schema {
			s, err := cache.Any(document)
			require.NoError(t, err)
			return s
		}
		first := ask(large(1))
		require.Same(t, first, ask(large(1)))
		for i := range 5 {
			ask(large(2 + i))
		}
		require.NotSame(t, first, ask(large(1)), "six of them fill the cache")
		huge := jsontext.Value(fmt.Sprintf(`{"title":%q}`, strings.Repeat("x", 2000)))
		once := ask(huge)
		require.NotSame(t, once, ask(huge), "it alone would take over a quarter")
	})
	t.Run("an object and any are told apart", func(t *testing.T) {
		t.Parallel()
		cache := schema.NewCache(4)
		_, err := cache.Any(jsontext.Value(`{"type":"string"}`))
		require.NoError(t, err)
		_, err = cache.Object(jsontext.Value(`{"type":"string"}`))
		refused(t, err, "")
	})
	t.Run("a refusal is the caller's own", func(t *testing.T) {
		t.Parallel()
		cache := schema.NewCache(4)
		for range 2 {
			_, err := cache.Any(jsontext.Value(`{"type":"nope"}`))
			refused(t, err, "/type")
			var e *toolpark.Error
			require.ErrorAs(t, err, &e)
			e.At("/tools/0/input_schema/type")
		}
	})
}
