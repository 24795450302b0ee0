//go:build unix

package schema_test

import (
	"encoding/json/jsontext"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/schema"
)

// What one schema, or one value of an input's size, may cost. The time is ten times what is meant, 100 ms:
// a machine that does other things as well is slower even by a clock that counts only this process.
const (
	mostTime    = time.Second
	mostGarbage = 64 << 20
)

// growing makes something of size n.
type growing func(n int) string

// list, object, text and levels are values that grow; %d in them stands for an index.
func list(item string) growing {
	return func(n int) string { return "[" + many(n, item) + "]" }
}

func object(member string) growing {
	return func(n int) string { return "{" + many(n, member) + "}" }
}

func text(part string) growing {
	return func(n int) string { return `"` + strings.Repeat(part, n) + `"` }
}

func levels(open, inside, end string) growing {
	return func(n int) string { return nested(n, open, inside, end) }
}

// Whatever size a schema grows to, compiling it is cheap or refused.
func TestSchemaBombs(t *testing.T) {
	// Not parallel: the clock is the subject.
	with := func(before string, grow growing, after string) growing {
		return func(n int) string { return before + grow(n) + after }
	}
	keyword := func(name string, grow growing) growing { return with(`{"`+name+`":`, grow, "}") }
	definitions := func(member string) growing { return keyword("$defs", object(member)) }
	deep := strings.Repeat("/items", 40)
	for name, grow := range map[string]growing{
		"nesting":                        levels(`{"not":`, "{}", "}"),
		"nesting of annotations":         keyword("default", levels("[", "1", "]")),
		"nesting, often":                 definitions(`"%d":` + nested(60, `{"not":`, "{}", "}")),
		"a large text, deep down":        with(strings.Repeat(`{"not":`, 62)+`{"title":`, text("x"), strings.Repeat("}", 63)),
		"references that double":         doubled,
		"references in a row":            func(n int) string { return `{"$ref":"#/$defs/0",` + inARow(n, "{}") + "}" },
		"references to one schema":       with(`{"properties":`, object(`"%d":{"$ref":"#/not"}`), `,"not":{}}`),
		"references by long pointers":    with(`{"allOf":`, list(`{"$ref":"#/not`+deep+`"}`), `,"not":`+nested(40, `{"items":`, "{}", "}")+"}"),
		"branches":                       keyword("anyOf", list("{}")),
		"properties":                     keyword("properties", object(`"%d":{"type":"string"}`)),
		"types":                          keyword("properties", object(`"%d":{"type":["null","array","object","string"]}`)),
		"required names":                 keyword("required", list(`"%d"`)),
		"dependent names":                keyword("dependentRequired", object(`"%d":[]`)),
		"an enum of one number":          keyword("enum", list("1")),
		"an enum of hard numbers":        keyword("enum", list("%de999")),
		"an enum of texts":               keyword("enum", list(`"%d"`)),
		"hard bounds":                    definitions(`"%d":{"multipleOf":1e-999}`),
		"hard counts":                    definitions(`"%d":{"minLength":0e999}`),
		"long bounds":                    definitions(`"%d":{"minimum":` + strings.Repeat("7", 1000) + "}"),
		"anchors":                        definitions(`"%d":{"$anchor":"a%d"}`),
		"addresses":                      definitions(`"%d":{"$id":"%d"}`),
		"addresses in addresses":         levels(`{"$id":"`+strings.Repeat("x", 100)+`/","not":`, "{}", "}"),
		"a long address, often":          with(`{"$id":"http://a.test/`+strings.Repeat("x", 1000)+`/","$defs":{"a":{"$id":"a"}},"allOf":`, list(`{"$ref":"a"}`), "}"),
		"a very long address":            with(`{"$id":`, text("x"), `,"$defs":{"a":{"$id":"a"}},"allOf":[`+many(1000, `{"$ref":"a"}`)+"]}"),
		"a pattern, often":               definitions(`"%d":{"pattern":"(abcdefg){1000}"}`),
		"patterns":                       keyword("patternProperties", object(`"^%d":{}`)),
		"a pattern that repeats":         func(n int) string { return fmt.Sprintf(`{"pattern":"(a?){%d}"}`, n) },
		"a pattern of repeats":           keyword("pattern", text("(a?){100}")),
		"a pattern that nests":           func(n int) string { return `{"pattern":"` + nested(n, "(", "a", "|b)*") + `"}` },
		"a pattern of branches":          keyword("pattern", text("a|b")),
		"classes of Unicode":             keyword("pattern", text(`[\\PL\\pN]`)),
		"classes of Unicode, often":      keyword("patternProperties", object(`"%d\\pL\\PL":{}`)),
		"ranges that ignore case":        keyword("pattern", text("(?i)[b-𞤀]")),
		"ranges that ignore case, often": keyword("patternProperties", object(`"(?si)%d[\\x{100}-\\x{1E900}]":{}`)),
	} {
		t.Run(name, func(t *testing.T) {
			ofEverySize(t, func(n int) (small, accepted bool) {
				document := jsontext.Value(grow(n))
				var err error
				bounded(t, n, 1, func() { _, err = schema.Compile(document) })
				return len(document) <= toolpark.MaxSchema && n < 1<<20, err == nil
			})
		})
	}
}

// Whatever size a value grows to, checking it against any schema is cheap or refused. A result may be
// larger than an input, and cost that much more.
func TestValueBombs(t *testing.T) {
	// Not parallel: the clock is the subject.
	declared := func(n int) string { return `"properties":{` + many(n, `"k%d":{}`) + "}" }
	required := func(n int) string { return `"required":[` + many(n, `"k%d"`) + "]" }
	large := "{" + many(5000, `"k%d":1`) + "}"
	items := func(keywords string) string { return `{"items":{` + keywords + "}}" }
	manyOf := func(keyword string, n int, part string) string { return `{"` + keyword + `":[` + many(n, part) + "]}" }
	for name, tc := range map[string]struct {
		document string
		value    growing
	}{
		"a grammar that branches":     {manyOf("oneOf", 2, `{"properties":{"a":{"$ref":"#"}}}`), levels(`{"a":`, "1", "}")},
		"items that double":           {manyOf("allOf", 2, `{"items":{"$ref":"#"}}`), levels("[", "1", "]")},
		"long ways to deep values":    {`{"$ref":"#/$defs/0",` + inARow(200, `{"items":{"$ref":"#"}}`) + "}", levels("[", "1", "]")},
		"long ways to many names":     {`{"items":{"$ref":"#/$defs/0"},` + inARow(200, "{"+declared(900)+"}") + "}", list("{}")},
		"long ways to many items":     {`{"$ref":"#/$defs/0",` + inARow(200, `{"items":true}`) + "}", list("1")},
		"required and absent":         {items(required(20_000)), list("{}")},
		"declared and absent":         {items(declared(1000) + "," + required(1000)), list("{}")},
		"declared, and no others":     {items(declared(9000) + `,"additionalProperties":false`), list("{}")},
		"dependent names":             {items(`"dependentRequired":{` + many(15_000, `"%d":[]`) + "}"), list("{}")},
		"dependent and absent":        {items(`"dependentRequired":{"a":[` + many(9000, `"k%d"`) + "]}"), list(`{"a":1}`)},
		"an enum of numbers":          {items(`"enum":[` + many(5000, "%d") + "]"), list("99999")},
		"an enum of hard numbers":     {items(`"enum":[` + many(1000, "%de999") + "]"), list("7")},
		"an enum of texts":            {items(`"enum":[` + many(9000, `"%d"`) + "]"), list(`"x"`)},
		"an enum of few texts":        {items(`"enum":["a","b","c","d","e","f","g","h"]`), list(`"x"`)},
		"an enum of long texts":       {items(`"allOf":[` + many(9, `{"enum":["%d","`+strings.Repeat("x", 20_000)+`"]}`) + "]"), list("1")},
		"an enum with a large value":  {items(`"enum":[` + large + "]"), list("1")},
		"a large constant":            {items(`"const":` + large), list("1")},
		"a large constant, almost":    {items(`"const":[` + many(2000, "1") + ",2]"), list("[" + many(2000, "1") + ",1]")},
		"a greedy pattern":            {`{"pattern":"^(a?){1000}$"}`, text("a")},
		"a pattern that backtracks":   {`{"pattern":"^(.*)(.*)(.*)(.*)z$"}`, text("a")},
		"patterns over one text":      {manyOf("allOf", 500, `{"pattern":"(x+x+)+%d"}`), text("x")},
		"patterns that overlap":       {`{"patternProperties":{` + many(500, `"k.*%d*":{"type":"string"}`) + `},"additionalProperties":false}`, object(`"k%d":1`)},
		"a pattern for many names":    {`{"patternProperties":{"":{"type":"string"}}}`, object(`"k%d":1`)},
		"hard numbers":                {items(`"minimum":0,"multipleOf":1e-1000`), list("%de-999")},
		"hard bounds":                 {items(`"allOf":[` + many(200, `{"multipleOf":7%de-999}`) + "]"), list("%d.1")},
		"long numbers":                {items(`"allOf":[` + many(200, `{"multipleOf":`+strings.Repeat("7", 1000)+"}") + "]"), list(strings.Repeat("3", 1000))},
		"a long text, many lengths":   {manyOf("allOf", 4900, `{"minLength":%d}`), text("a")},
		"different numbers":           {`{"uniqueItems":true}`, list("%d")},
		"different hard numbers":      {`{"uniqueItems":true}`, list("%de999")},
		"different objects, often":    {manyOf("allOf", 500, `{"uniqueItems":true}`), list(`{"a":[%d],"b":{"c":%d}}`)},
		"wrong items":                 {items(`"type":"string"`), list("1")},
		"wrong items in many ways":    {items(`"anyOf":[` + many(4900, `{"type":"null"}`) + "]"), list("1")},
		"items nobody contains":       {`{"contains":{"type":"string"}}`, list("1")},
		"unevaluated items":           {`{"unevaluatedItems":{"type":"null"}}`, list("1")},
		"names noted over and over":   {`{"allOf":[` + many(200, `{"additionalProperties":true}`) + `],"unevaluatedProperties":false}`, object(`"k%d":1`)},
		"unknown names":               {`{"additionalProperties":false}`, object(`"k%d":1`)},
		"unevaluated names":           {`{"allOf":[` + many(40, `{"properties":{"%d":{}}}`) + `],"unevaluatedProperties":false}`, object(`"k%d":1`)},
		"names that match no pattern": {`{"propertyNames":{"pattern":"^x"}}`, object(`"k%d":1`)},
	} {
		t.Run(name, func(t *testing.T) {
			s := compiled(t, tc.document)
			most := toolpark.MaxToolInput
			if os.Getenv("TOOLPARK_FULL") == "1" {
				most = toolpark.MaxResult
			}
			ofEverySize(t, func(n int) (small, accepted bool) {
				value := jsontext.Value(tc.value(n))
				var complaints []schema.Complaint
				bounded(t, n, max(1, len(value)/toolpark.MaxToolInput), func() { complaints = s.Check(value) })
				return len(value) <= most, len(complaints) != 1 || !strings.Contains(complaints[0].Reason, "too many steps")
			})
		})
	}
}

// ofEverySize runs with a growing n while it is small, and close to the largest n that is accepted.
func ofEverySize(t *testing.T, run func(n int) (small, accepted bool)) {
	t.Helper()
	var accepted, refused int
	for n, small := 1, true; small; n *= 2 {
		var ok bool
		if small, ok = run(n); ok {
			accepted = n
		} else if refused == 0 {
			refused = n
		}
	}
	require.Positive(t, accepted, "refused from the start")
	for refused-accepted > accepted/8+1 {
		n := (accepted + refused) / 2
		if _, ok := run(n); ok {
			accepted = n
		} else {
			refused = n
		}
	}
}

// inARow defines n references, each to the next, and what the last one leads to.
func inARow(n int, last string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%d":{"$ref":"#/$defs/%d"},`, i, i+1)
	}
	return `"$defs":{` + b.String() + `"` + strconv.Itoa(n) + `":` + last + "}"
}

// bounded fails the test when a run takes too long or makes too much garbage, so many times what one
// schema or input may. A slow run gets two more chances: the collector may have been the reason.
func bounded(t *testing.T, n, times int, run func()) {
	t.Helper()
	took, garbage := time.Duration(0), uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := cpuTime(t)
		run()
		took = cpuTime(t) - start
		runtime.ReadMemStats(&after)
		garbage = after.TotalAlloc - before.TotalAlloc
		if took < mostTime*time.Duration(times) {
			break
		}
	}
	require.Less(t, took, mostTime*time.Duration(times), "n=%d", n)
	require.Less(t, garbage, mostGarbage*uint64(times), "n=%d", n)
}

// cpuTime is what this process has used so far.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
