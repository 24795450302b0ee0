package schema

import (
	"encoding/json/jsontext"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolpark/toolpark/internal/strictjson"
)

// Bounds on patterns. The library builds each machine three times, at some 200 bytes an instruction.
const (
	maxPattern   = 4 << 10 // bytes of one pattern
	maxProgram   = 10_000  // instructions of one pattern's machine
	maxPrograms  = 50_000  // instructions of all machines of a document
	emptyProgram = 4       // instructions that any machine takes beside its own
)

// pattern refuses an expression that RE2 does not know, or whose machine is too big to build and run.
func (s *survey) pattern(at jsontext.Pointer, expression string) error {
	if len(expression) > maxPattern {
		return refuse(string(at), "the pattern has %d bytes; at most %d are allowed", len(expression), maxPattern)
	}
	size := classesSize(expression)
	instructions, seen := s.programs[expression]
	if !seen && size <= maxProgram && s.size+size <= maxPrograms {
		var err error
		if instructions, err = programSize(expression); err != nil {
			return refuse(string(at), "the pattern is not in RE2 syntax, which has no look-around and no back-references (%s)",
				strictjson.CutString(err.Error(), maxReason))
		}
		s.programs[expression] = instructions
	}
	size += instructions + emptyProgram
	s.size += size // each time, since the library builds a machine at each place
	if size > maxProgram || s.size > maxPrograms {
		return refuse(string(at), "the pattern repeats too much; a schema's patterns are expanded before they are matched, so use smaller counts and fewer classes of Unicode")
	}
	return nil
}

// classesSize is what the classes of a pattern take to build, as a number of instructions. It is known
// before they are built: a class of Unicode has a thousand ranges, and without regard to case, each
// letter of a range is looked up.
func classesSize(expression string) int {
	size := 200 * (strings.Count(expression, `\p`) + strings.Count(expression, `\P`))
	if foldsCase.MatchString(expression) {
		for _, end := range rangeEnds.FindAllStringSubmatch(expression, -1) {
			size += letters(end[1]) / 25
		}
	}
	return size
}

var (
	foldsCase = regexp.MustCompile(`\(\?[msU]*i`)
	rangeEnds = regexp.MustCompile(`(?s)-(\\x\{?[0-9A-Fa-f]+|.)`)
)

// letters is how many a range that ends so may have.
func letters(end string) int {
	if digits, escaped := strings.CutPrefix(end, `\x`); escaped {
		code, _ := strconv.ParseUint(strings.TrimPrefix(digits, "{"), 16, 32)
		return min(int(code), unicode.MaxRune)
	}
	r, _ := utf8.DecodeRuneInString(end)
	return int(r)
}

// programSize compiles a pattern and counts the instructions of the machine that matches it.
func programSize(expression string) (int, error) {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, err
	}
	return len(program.Inst), nil
}
