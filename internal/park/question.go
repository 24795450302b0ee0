package park

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// Question is what a person is asked.
type Question struct {
	Prompt  string   // not blank
	Options []string // answers to choose from, none blank, no two alike; nil when any answer is free text
	Multi   bool     // several options may be chosen
	Strict  bool     // an answer must choose from the options
}

// ReadQuestion reads {"prompt", "options"?, "multi"?, "strict_options"?}. Its refusal is validation_failed at the
// member that is wrong.
func ReadQuestion(raw jsontext.Value) (Question, *toolpark.Error) {
	var q Question
	if pointer, reason, bad := strictjson.Unstorable(raw); bad {
		return q, invalidQuestion(pointer, "%s", reason)
	}
	var members struct {
		Prompt  jsontext.Value `json:"prompt"`
		Options jsontext.Value `json:"options"`
		Multi   jsontext.Value `json:"multi"`
		Strict  jsontext.Value `json:"strict_options"`
	}
	if err := json.Unmarshal(raw, &members, json.RejectUnknownMembers(true)); err != nil {
		return q, invalidQuestion("", "a question is an object of prompt, options, multi and strict_options, and nothing else").Because(err)
	}
	if members.Prompt.Kind() != jsontext.KindString || json.Unmarshal(members.Prompt, &q.Prompt) != nil ||
		strings.TrimSpace(q.Prompt) == "" || len(q.Prompt) > toolpark.MaxPrompt {
		return q, invalidQuestion("/prompt", "prompt must be a text that is not blank, of at most %d bytes", toolpark.MaxPrompt)
	}
	if members.Options != nil {
		var refusal *toolpark.Error
		if q.Options, refusal = readOptions(members.Options); refusal != nil {
			return q, refusal
		}
	}
	for _, flag := range []struct {
		name string
		raw  jsontext.Value
		into *bool
	}{{"multi", members.Multi, &q.Multi}, {"strict_options", members.Strict, &q.Strict}} {
		if flag.raw == nil {
			continue
		}
		if json.Unmarshal(flag.raw, flag.into) != nil || flag.raw.Kind() == jsontext.KindNull {
			return q, invalidQuestion("/"+flag.name, "%s must be true or false", flag.name)
		}
		if q.Options == nil {
			return q, invalidQuestion("/"+flag.name, "%s needs options", flag.name)
		}
	}
	return q, nil
}

func readOptions(raw jsontext.Value) ([]string, *toolpark.Error) {
	var options []string
	if raw.Kind() != jsontext.KindBeginArray || json.Unmarshal(raw, &options) != nil ||
		len(options) == 0 || len(options) > toolpark.MaxAskOptions {
		return nil, invalidQuestion("/options", "options must be a list of 1 to %d texts", toolpark.MaxAskOptions)
	}
	seen := make(map[string]bool, len(options))
	for i, option := range options {
		at, plain := fmt.Sprintf("/options/%d", i), strings.TrimSpace(option)
		switch {
		case plain == "" || utf8.RuneCountInString(option) > toolpark.MaxAskOption:
			return nil, invalidQuestion(at, "an option must be a text that is not blank, of at most %d characters", toolpark.MaxAskOption)
		case seen[plain]:
			return nil, invalidQuestion(at, "an option must differ from the others by more than the white space around it")
		}
		seen[plain] = true
	}
	return options, nil
}

func invalidQuestion(pointer, format string, args ...any) *toolpark.Error {
	return toolpark.Errorf(toolpark.CodeValidationFailed, format+".", args...).At(pointer)
}

// Judge holds an answer to the options, if it must choose from them: by structured_content, which is an option
// or, of a multi question, a list of different ones, or else by the text, which is an option or, of a multi
// question, one on each line. White space around a text does not count. An answer that says that it failed chooses
// nothing. The refusal is invalid_content and names the options.
func (q Question) Judge(r envelope.Report) *toolpark.Error {
	if !q.Strict || r.Failed {
		return nil
	}
	if r.StructuredContent != nil {
		if q.choosesValue(r.StructuredContent) {
			return nil
		}
		return q.notAnOption("/structured_content")
	}
	if q.choosesText(r.Output) {
		return nil
	}
	return q.notAnOption("/content")
}

func (q Question) choosesValue(value jsontext.Value) bool {
	switch value.Kind() {
	case jsontext.KindString:
		var one string
		return json.Unmarshal(value, &one) == nil && slices.Contains(q.Options, one)
	case jsontext.KindBeginArray:
		var list []jsontext.Value
		if !q.Multi || json.Unmarshal(value, &list) != nil || len(list) == 0 {
			return false
		}
		chosen := map[string]bool{}
		for _, element := range list {
			var one string
			if element.Kind() != jsontext.KindString || json.Unmarshal(element, &one) != nil || chosen[one] || !slices.Contains(q.Options, one) {
				return false
			}
			chosen[one] = true
		}
		return true
	}
	return false
}

func (q Question) choosesText(text string) bool {
	if q.offers(text) || !q.Multi {
		return q.offers(text)
	}
	chosen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if chosen[line] || !q.offers(line) {
			return false
		}
		chosen[line] = true
	}
	return len(chosen) > 0
}

func (q Question) offers(text string) bool {
	text = strings.TrimSpace(text)
	return slices.ContainsFunc(q.Options, func(option string) bool { return strings.TrimSpace(option) == text })
}

func (q Question) notAnOption(pointer string) *toolpark.Error {
	quoted := make([]string, len(q.Options))
	for i, option := range q.Options {
		quoted[i] = fmt.Sprintf("%q", option)
	}
	how := "must be one of the options"
	if q.Multi {
		how = "must be of the options, each at most once"
	}
	return toolpark.Errorf(toolpark.CodeInvalidContent, "The answer %s: %s.", how, strings.Join(quoted, ", ")).At(pointer)
}
