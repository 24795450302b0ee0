package declaration

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"strconv"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/form"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// Entry is one callable that is declared by itself, in one of three shapes: a function of the author's,
// a kernel tool as the catalog has it, or an alias of one.
type Entry struct {
	Function         // as a model sees it
	Kernel   *Kernel // nil for a function of the author's

	tool  *catalog.Tool    // what the kernel runs; nil for a function of the author's
	recut *string          // the tool's template as an alias cut it; nil when none did
	named jsontext.Pointer // where a kernel tool's name was declared
}

// entries reads what is declared one by one.
func (g grammar) entries(definitions jsontext.Value) ([]Entry, error) {
	at := g.at(g.definitions)
	if absent(definitions) {
		return nil, nil
	}
	if size, _ := strictjson.Size(definitions); size > toolpark.MaxToolDefinitions {
		return nil, g.tooLarge(size)
	}
	var problems []form.Problem
	raw := list(definitions, at, &problems)
	if len(problems) > 0 {
		return nil, problems[0].Refuse(toolpark.CodeValidationFailed)
	}
	entries := make([]Entry, len(raw))
	first := make(map[string]int, len(raw))
	for i := range raw {
		entry, err := g.entry(raw[i], at.AppendToken(strconv.Itoa(i)))
		if err != nil {
			return nil, err
		}
		if earlier, ok := first[entry.Name]; ok {
			return nil, form.At(entry.at, "declares %s, which %s[%d] declares already",
				entry.Name, g.definitions, earlier).Refuse(toolpark.CodeDuplicateToolName)
		}
		first[entry.Name] = i
		entries[i] = entry
	}
	return entries, nil
}

// tooLarge refuses tool definitions of so many bytes.
func (g grammar) tooLarge(size int) error {
	return form.At(g.at(g.definitions), "take %d bytes; they may have %d", size, toolpark.MaxToolDefinitions).
		Refuse(toolpark.CodeContentTooLarge)
}

// entry reads one entry of any shape.
func (g grammar) entry(raw jsontext.Value, at jsontext.Pointer) (Entry, error) {
	s := shape{at: at}
	var ok bool
	if s.outer, ok = form.Open(raw, at, &s.problems); !ok {
		return Entry{}, s.refusal()
	}
	s.inner = s.outer
	if nested := s.outer.Take("function", false); nested != nil {
		if s.inner, ok = form.Open(nested, at+"/function", &s.problems); !ok {
			return Entry{}, s.refusal()
		}
	}
	form.Storable(raw, at, &s.problems)
	if s.outer.Members["canonical"] != nil {
		return g.alias(&s)
	}
	if tool, ok := g.kernel.ByName(s.name()); ok {
		return plainKernel(&s, tool)
	}
	f, err := parseFunction(&s)
	return Entry{Function: f}, err
}

// shape is an entry taken apart: its function, and what stands beside it. A flat entry has both in one.
type shape struct {
	at           jsontext.Pointer
	outer, inner form.Object
	problems     []form.Problem
}

// name is the entry's name before anything about it has been judged; "" when it has none.
func (s *shape) name() string {
	var name string
	_ = json.Unmarshal(s.inner.Members["name"], &name) // what is no string is noted by who takes it
	return name
}

// rest notes every member that nobody took.
func (s *shape) rest() {
	s.inner.Rest()
	if s.inner.At != s.outer.At {
		s.outer.Rest()
	}
}

// refusal is the first problem as a validation_failed; nil when there is none.
func (s *shape) refusal() error {
	if len(s.problems) == 0 {
		return nil
	}
	return s.problems[0].Refuse(toolpark.CodeValidationFailed)
}
