package park

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"uuid"

	"github.com/toolpark/toolpark"
)

const tokenPrefix = "tp_claim_"

// Tokens makes claim tokens. A token follows from the secret and the claim, so the same executor that
// repeats its claim_key gets the same token from any API process, and only a hash of it is stored.
type Tokens struct {
	Secret   []byte // 32 bytes, the same for every API process
	Previous []byte // the secret before a rotation, or nil
}

// token is an HMAC over the claim. Its parts are ids and a claim_key that comes last, so no two claims
// spell the same message.
func token(secret []byte, task *toolpark.Task, executor uuid.UUID, claimKey string) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s/%s/%d/%s/%s", task.RunID, task.Key, task.Generation, executor, claimKey)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// fresh makes the token of a new claim.
func (t Tokens) fresh(task *toolpark.Task, executor uuid.UUID, claimKey string) string {
	return token(t.Secret, task, executor, claimKey)
}

// repeated finds the token that this claim_key was granted before, by the present secret or the one
// before it. It returns "" when the live claim was made with another key, or by another executor.
func (t Tokens) repeated(task *toolpark.Task, executor uuid.UUID, claimKey string) string {
	for _, secret := range [][]byte{t.Secret, t.Previous} {
		if secret == nil {
			continue
		}
		if granted := token(secret, task, executor, claimKey); holds(task, tokenHash(granted)) {
			return granted
		}
	}
	return ""
}

func tokenHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// holds tells in constant time whether a token's hash is that of the task's claim.
func holds(task *toolpark.Task, hash []byte) bool {
	return task.ClaimTokenHash != nil && subtle.ConstantTimeCompare(task.ClaimTokenHash, hash) == 1
}
