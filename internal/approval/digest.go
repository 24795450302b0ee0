package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"

	"github.com/toolpark/toolpark/internal/strictjson"
)

// Digest says what is approved, so that an approval is of that and nothing else: the SHA-256, in lower-case
// hexadecimal, of the canonical JSON of {"input", "target", "tool_name"}. The target is whatever tells the
// caller's targets apart; no input is null. An input that is no JSON stands for itself byte for byte.
func Digest(input jsontext.Value, target, tool string) string {
	if len(input) == 0 {
		input = jsontext.Value(`null`)
	}
	canonical, err := strictjson.Canonical(input)
	if err != nil {
		canonical = append([]byte("\xff"), input...) // no JSON begins like this
	}
	document := append([]byte(`{"input":`), canonical...)
	document, _ = jsontext.AppendQuote(append(document, `,"target":`...), target) // what is not UTF-8 is replaced
	document, _ = jsontext.AppendQuote(append(document, `,"tool_name":`...), tool)
	sum := sha256.Sum256(append(document, '}'))
	return hex.EncodeToString(sum[:])
}
