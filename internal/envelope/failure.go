package envelope

import (
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// maxFailureDetail bounds, in bytes, how much of a failure's detail a model reads. The whole detail
// stays on the task.
const maxFailureDetail = 8 << 10

// sentences say, per error key, what happened and what the model can do next.
var sentences = map[string]string{
	toolpark.ErrUnknownTool:          "This tool is not one you can call here, so nothing ran; use a tool you were offered.",
	toolpark.ErrInvalidToolArguments: "The arguments were not one JSON object, so the tool did not run; send the call again with complete JSON.",
	toolpark.ErrToolInputTooLarge:    "The arguments were too large, so the tool did not run; send less at once.",
	toolpark.ErrInvalidToolInput:     "The arguments do not fit this tool, so it did not run; correct them and call it again.",
	toolpark.ErrToolNotServed:        "Nothing serves this tool at present, so it did not run; go on without it.",
	toolpark.ErrRunnerNotEligible:    "The machine that serves this tool may not be used at present, so it did not run; go on without it.",
	toolpark.ErrApprovalDenied:       "Permission for this call was declined, so it did not run; do not repeat it, take another way or ask the user.",
	toolpark.ErrApprovalExpired:      "Nobody decided about this call in time, so it did not run; go on without it, or ask the user.",
	toolpark.ErrAskTimeout:           "Nobody answered in time; go on without an answer, and say what you assumed.",
	toolpark.ErrToolFailed:           "The tool could not do its work; read the reason before you try again.",
	toolpark.ErrToolTimeout:          "The tool gave no answer in time; you may call it again, or go on without it.",
	toolpark.ErrToolUncertain:        "The tool was started but its outcome is not known; check what changed before you repeat the call.",
	toolpark.ErrTaskCanceled:         "This call was canceled; do not repeat it unless you are asked to.",
	toolpark.ErrResultUnstorable:     "The tool answered with text that cannot be stored, so its result is lost; its effects may have happened.",
	toolpark.ErrOutputSchemaMismatch: "The tool ran, but its result broke the format it promised and is withheld; its effects may have happened.",
	toolpark.ErrWorkflowTerminated:   "An operator ended this call before it had a result; its effects may have happened.",
}

// otherFailure is the sentence for a key that the table does not hold.
const otherFailure = "This call did not complete, and its effects may have happened."

// Failure is what a model reads of a task that did not complete: one sentence, then the error's key
// and detail in parentheses. It is never empty; a detail over 8 KiB is cut.
func Failure(err toolpark.TaskError) string {
	sentence, ok := sentences[err.Key]
	if !ok {
		sentence = otherFailure
	}
	reason := err.Key
	if detail := strings.TrimSpace(err.Detail); detail != "" {
		if reason != "" {
			reason += ": "
		}
		reason += strictjson.CutString(detail, maxFailureDetail)
	}
	if reason == "" {
		return sentence
	}
	return sentence + " (" + reason + ")"
}
