// Package toolpark holds the words that every other package shares: identities, tasks and their
// states, effect profiles and the one error type. It imports the standard library only.
//
// Toolpark makes an AI agent's tool calls durable. Each call is one task: a row in Postgres that
// holds what is true, and a Temporal workflow that holds the time and does the settling.
package toolpark
