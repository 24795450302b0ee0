package declaration

import (
	"encoding/json/jsontext"
	"regexp"
	"strconv"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/form"
)

// documentName is lower case words joined by single hyphens.
var documentName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// announcedDocuments checks the list of documents that an executor can load for a model.
func announcedDocuments(value jsontext.Value, problems *[]form.Problem) {
	first := map[string]int{}
	for i, entry := range list(value, "/documents", problems) {
		at := jsontext.Pointer("/documents").AppendToken(strconv.Itoa(i))
		o, ok := form.Open(entry, at, problems)
		if !ok {
			continue
		}
		if name := o.Text("name", true); name != nil {
			earlier, taken := first[*name]
			switch {
			case len(*name) > toolpark.MaxDocumentName || !documentName.MatchString(*name):
				o.Note("name", "%s must be at most %d characters of a-z and 0-9, words joined by single hyphens",
					quote(*name), toolpark.MaxDocumentName)
			case taken:
				o.Note("name", "%s is announced by documents[%d] already", quote(*name), earlier)
			default:
				first[*name] = i
			}
		}
		if text := o.Text("description", true); text != nil {
			if strings.TrimSpace(*text) == "" || len(*text) > toolpark.MaxDocumentSummary {
				o.Note("description", "must be 1 to %d bytes", toolpark.MaxDocumentSummary)
			}
		}
		o.Rest()
		form.Storable(entry, at, problems)
	}
}
