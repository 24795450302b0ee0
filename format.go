package toolpark

// Format is the shape in which a model's provider takes tools and tool results.
type Format string

// The formats that tools and results can be rendered in.
const (
	FormatChatCompletions Format = "chat_completions" // OpenAI Chat Completions
	FormatResponses       Format = "responses"        // OpenAI Responses
	FormatAnthropic       Format = "anthropic"        // Anthropic Messages
)

// Formats are all of them.
var Formats = []Format{FormatChatCompletions, FormatResponses, FormatAnthropic}

// ParseFormat reads a format's name. Another word is refused with parameter_invalid.
func ParseFormat(name string) (Format, error) {
	switch format := Format(name); format {
	case FormatChatCompletions, FormatResponses, FormatAnthropic:
		return format, nil
	}
	return "", Errorf(CodeParameterInvalid,
		"format must be one of %s, %s, %s.", FormatChatCompletions, FormatResponses, FormatAnthropic).With("parameter", "format")
}
