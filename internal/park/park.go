// Package park is the heart of Toolpark: what a task may do next, and the transactions that do it.
//
// Whoever wants something of a task stages an input under the row's lock; the task's workflow calls
// Advance, which judges what is staged, looks at the clock and settles the task or says when to look
// again. Every verb on a task locks its row, then reads the clock and what is staged in statements of
// their own, then decides and writes.
package park

import (
	"crypto/sha256"
	"encoding/json/jsontext"

	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/schema"
)

// Park is the tasks of all accounts. Its methods may be called from any goroutine of any process.
type Park struct {
	DB      *postgres.DB
	Hub     *notify.Hub
	Schemas *schema.Cache
	Tokens  Tokens

	contexts contextCache
}

func hash(document jsontext.Value) []byte {
	sum := sha256.Sum256(document)
	return sum[:]
}
