// Package credential makes and reads bearer secrets. A bearer belongs to one plane, which its prefix
// names; only its SHA-256 is ever stored.
package credential

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// Plane is the half of the API that a bearer opens.
type Plane string

const (
	Member   Plane = "member"   // people and agents
	Executor Plane = "executor" // delivery addresses for work
)

const secretBytes = 32

// encoding refuses the unused low bits of the last character, so a secret has one spelling.
var encoding = base64.RawURLEncoding.Strict()

// Mint makes a fresh bearer, to be shown once, and the hash to store.
func Mint(plane Plane) (bearer string, hash []byte) {
	var secret [secretBytes]byte
	rand.Read(secret[:]) // never fails: crypto/rand ends the process instead
	bearer = prefix(plane) + encoding.EncodeToString(secret[:])
	return bearer, sum(bearer)
}

// Hash is what a bearer of the plane is looked up by. It is false when the text cannot be one.
func Hash(plane Plane, bearer string) ([]byte, bool) {
	text, ok := strings.CutPrefix(bearer, prefix(plane))
	if !ok {
		return nil, false
	}
	secret, err := encoding.DecodeString(text)
	if err != nil || len(secret) != secretBytes || len(text) != encoding.EncodedLen(secretBytes) {
		return nil, false
	}
	return sum(bearer), true
}

func prefix(plane Plane) string { return "tp_" + string(plane) + "_" }

func sum(bearer string) []byte {
	hash := sha256.Sum256([]byte(bearer))
	return hash[:]
}
