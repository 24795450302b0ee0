package envelope

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"
)

// Output is the text projection of stored content: what a model reads of it. Nil, a blank result,
// projects the empty string.
func Output(content jsontext.Value) (string, error) {
	blocks, err := parseContent(content, content)
	if err != nil {
		return "", fmt.Errorf("read stored content: %w", err) // not as a refusal: the reader sent nothing
	}
	return text(blocks)
}

// text joins what blocks say: a text as it is, a link as its JSON on one line.
func text(blocks []block) (string, error) {
	lines := make([]string, len(blocks))
	for i, b := range blocks {
		if b.Type == blockText {
			lines[i] = *b.Text
			continue
		}
		line, err := json.Marshal(b)
		if err != nil {
			return "", fmt.Errorf("render content[%d]: %w", i, err)
		}
		lines[i] = string(line)
	}
	return strings.Join(lines, "\n"), nil
}
