package toolpark

import "time"

// Bounds on what a request, an announcement or a result may hold (spec: identity and HTTP rules, Bounds).
const (
	MaxToolInput        = 64 << 10  // bytes of a call's input as canonical JSON
	MaxAnnouncedTools   = 1 << 20   // bytes of an announcement's tools list
	MaxAnnouncedDocs    = 64 << 10  // bytes of an announcement's documents list
	MaxEnvironment      = 64 << 10  // bytes of an announced environment
	MaxToolDefinitions  = 1 << 20   // bytes of declared tool definitions as canonical JSON
	MaxResult           = 1 << 20   // bytes of content and structured_content together
	MaxMetadata         = 64 << 10  // bytes of a result's metadata
	MaxRunMetadata      = 16 << 10  // bytes of a run's metadata
	MaxTitle            = 256       // bytes of a result's title or a run's label, one line
	MaxContentBlocks    = 1000      // blocks in one result
	MaxCallsPerRound    = 128       // calls in one round
	MaxStepsPerAppend   = 64        // steps in one append
	MaxToolNames        = 10_000    // names in a round's tool_names
	MaxToolCallID       = 128       // characters of a provider's pairing key
	MaxServedName       = 128       // characters of a served tool name
	MaxProgressFrame    = 4 << 10   // bytes of one progress frame
	MaxReportsPerClaim  = 100       // reports staged under one claim; more are rate limited
	MaxSchema           = 256 << 10 // bytes of one JSON Schema
	MaxSchemaDepth      = 64        // nesting of one JSON Schema
	MaxJSONDepth        = 128       // nesting of any other JSON
	MaxNumberLength     = 1000      // characters of one JSON number
	MaxNumberExponent   = 1000      // magnitude of one JSON number's exponent
	MaxRoundsBody       = 16 << 20  // bytes of a request body that authors a round
	MaxCommitBody       = 8 << 20   // bytes of a request body that commits a result
	MaxBody             = 2 << 20   // bytes of any other request body
	MaxPage             = 200       // rows of one page of a list
	DefaultPage         = 50        // rows of one page when the request names no limit
	MaxIdempotencyKey   = 64        // printable ASCII characters
	MaxClaimKey         = 64        // characters
	MaxDecisionReason   = 2 << 10   // bytes kept of a denial's reason
	MaxPrompt           = 8 << 10   // bytes of a question's prompt
	MaxAskOptions       = 50        // options of a question
	MaxAskOption        = 256       // characters of one of them
	MaxDocumentName     = 64        // characters of an announced document's name
	MaxDocumentSummary  = 1024      // bytes of an announced document's description
	MaxImportNames      = 10_000    // names in one import field
	MaxCandidates       = 128       // runners that may be selected
	MaxEnvironments     = 256 << 10 // bytes of the environments of all machines that one context shows
	MaxSkillCatalog     = 16 << 10  // bytes of a frozen skill catalog as canonical JSON
	MaxSearchResult     = 64 << 10  // bytes of what a tool search finds as canonical JSON
	MaxSchemaComplaints = 10        // reasons named when an input does not match its schema
	MaxApprovalRules    = 256       // approval rules of one configuration
	MaxApprovalPattern  = 512       // bytes of an approval rule's tool, path and match each
	MaxApprovalReason   = 256       // bytes of an approval rule's reason, one line
	MaxApprovalWildcard = 64        // bytes of a part of a glob that has a ? inside and stands between two *: one machine word
)

// Clocks.
const (
	MinToolTimeout     = time.Millisecond
	MaxToolTimeout     = 7 * 24 * time.Hour
	DefaultToolTimeout = 10 * time.Minute
	MaxExtension       = time.Hour
	MaxApprovalHold    = 24 * time.Hour // how long a call waits for a decision; a rule may shorten it
	DefaultAskTimeout  = time.Hour
	MaxAskTimeout      = 24 * time.Hour
	DefaultWaitTimeout = time.Hour          // how long a wait for another task lasts
	MaxWaitTimeout     = 7 * 24 * time.Hour // of a wait that a client authors
	MaxWait            = time.Minute        // longest long poll
	VerdictWait        = 10 * time.Second   // how long a request waits for the workflow's verdict
	IdempotencyTTL     = 24 * time.Hour     // how long an Idempotency-Key is remembered
	RefusedRunTTL      = 24 * time.Hour     // how long a refused run's refusal is kept
	RunIdleLimit       = 24 * time.Hour     // an idle run without live tasks completes
	ProgressInterval   = 250 * time.Millisecond
)
