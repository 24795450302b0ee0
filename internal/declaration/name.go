package declaration

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// callableName is what every provider takes as a function's name.
var callableName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// servedNameFlaw says why an executor cannot serve a tool under this name; "" when it can.
func servedNameFlaw(name string) string {
	switch n := utf8.RuneCountInString(name); {
	case n == 0:
		return "must not be empty"
	case n > toolpark.MaxServedName:
		return "is longer than " + strconv.Itoa(toolpark.MaxServedName) + " characters"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unprintable):
		return "holds a character that cannot be printed"
	case name[0] == ' ' || name[len(name)-1] == ' ':
		return "must not begin or end with a space"
	}
	return ""
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// quote shows a name in a message: bounded, and with escapes for what cannot be printed.
func quote(name string) string { return strconv.Quote(strictjson.CutString(name, 128)) }
