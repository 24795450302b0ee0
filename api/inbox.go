package api

import (
	"context"
	"encoding/json/jsontext"
	"net/http"
	"time"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
)

// inboxRow is a live task as its addressee sees it.
type inboxRow struct {
	Kind           string                  `json:"kind"`
	Run            uuid.UUID               `json:"run_public_id"`
	Workspace      uuid.UUID               `json:"workspace_public_id"`
	Conversation   *uuid.UUID              `json:"conversation_public_id"` // null until conversations exist
	Parent         *uuid.UUID              `json:"parent_public_id"`       // null until conversations exist
	TaskKey        string                  `json:"task_key"`
	Generation     int                     `json:"generation"`
	Redelivery     bool                    `json:"redelivery"`
	ToolName       *string                 `json:"tool_name"` // null for an ask
	ToolAlias      *string                 `json:"tool_alias,omitzero"`
	ToolInput      jsontext.Value          `json:"tool_input,omitzero"` // absent for an ask, which has the next four
	Prompt         string                  `json:"prompt,omitzero"`
	Options        []string                `json:"options,omitzero"`
	Multi          *bool                   `json:"multi,omitzero"`          // with options
	StrictOptions  *bool                   `json:"strict_options,omitzero"` // with options
	InputDigest    string                  `json:"input_digest,omitzero"`   // of an approval: what a decision is bound to
	Target         *string                 `json:"target_name,omitzero"`    // of an approval: whom the call would go to
	ToolCallID     *string                 `json:"tool_call_id,omitzero"`
	EffectProfile  *toolpark.EffectProfile `json:"effect_profile,omitzero"`
	IdempotencyKey string                  `json:"idempotency_key"` // the same in every generation
	RequestedBy    requestedBy             `json:"requested_by"`
	Session        jsontext.Value          `json:"session"` // the run's metadata
	StartedAt      time.Time               `json:"started_at"`
	DeadlineAt     time.Time               `json:"deadline_at"`
	TimeoutMS      int64                   `json:"timeout_ms"`
	Claimed        bool                    `json:"claimed"`
	AddressedTo    *addressedTo            `json:"addressed_to"` // null for the kernel's
}

// What an inbox row asks of its reader.
const (
	rowToolCall = "tool_call"
	rowAsk      = "ask"
	rowApproval = "approval"
)

type requestedBy struct {
	Member uuid.UUID           `json:"member_public_id"`
	Handle string              `json:"handle"`
	Kind   toolpark.MemberKind `json:"kind"`
}

func newInboxRow(r *postgres.InboxRow) inboxRow {
	row := inboxRow{
		Kind: rowToolCall, ToolAlias: r.ToolAlias, Run: r.RunID, Workspace: r.WorkspaceID, TaskKey: r.TaskKey, Generation: r.Generation,
		Redelivery: r.Redelivery(), ToolName: r.ToolName, ToolInput: r.ToolInput, ToolCallID: r.ToolCallID,
		EffectProfile: r.EffectProfile, IdempotencyKey: r.IdempotencyKey(),
		RequestedBy: requestedBy{Member: r.MemberID, Handle: r.MemberHandle, Kind: r.MemberKind},
		Session:     r.Session, StartedAt: r.DispatchedAt, DeadlineAt: r.DeadlineAt, TimeoutMS: r.TimeoutMS, Claimed: r.Claimed,
	}
	if r.AddressedRole != nil {
		row.AddressedTo = newAddressedTo(*r.AddressedRole, r.AddressedTo)
	}
	switch r.Status {
	case toolpark.NeedsApproval:
		row.Kind, row.Target, row.InputDigest = rowApproval, r.TargetName, park.InputDigest(r.Task(), r.ToolInput)
	case toolpark.AwaitingInput:
		row.asks()
	}
	return row
}

// asks makes the row that of a question: its input is told member by member.
func (row *inboxRow) asks() {
	q, refusal := park.ReadQuestion(row.ToolInput)
	row.Kind, row.ToolInput = rowAsk, nil
	if refusal != nil { // it was read before it was stored
		return
	}
	row.Prompt, row.Options = q.Prompt, q.Options
	if q.Options != nil {
		row.Multi, row.StrictOptions = &q.Multi, &q.Strict
	}
}

type inboxPlace struct {
	At  time.Time
	Run uuid.UUID
	Key string
}

func (p inboxPlace) position() postgres.InboxPosition {
	return postgres.InboxPosition{DispatchedAt: p.At, RunID: p.Run, TaskKey: p.Key}
}

// inboxPlaceOf reads which page of inbox rows is asked for.
func inboxPlaceOf(r *http.Request) (limit int, after inboxPlace, err error) {
	limit, cursor, err := page(r)
	if err != nil {
		return 0, after, err
	}
	if after, err = decodeCursor[inboxPlace](cursor); err != nil {
		return 0, after, err
	}
	if cursor != "" && !possibleKey.MatchString(after.Key) {
		return 0, after, badCursor()
	}
	return limit, after, nil
}

// getInbox lists the live rows of the caller, oldest first. With wait_ms it waits until the inbox
// differs from the version in unless, or, without one, until a row is unclaimed.
func (s *Server) getInbox(w http.ResponseWriter, r *http.Request) error {
	limit, after, err := inboxPlaceOf(r)
	if err != nil {
		return err
	}
	wait, err := waitMS(r)
	if err != nil {
		return err
	}
	e, unless := executor(r), r.URL.Query().Get("unless")
	sub := s.Park.Hub.Subscribe(notify.InboxTopic(e.ID))
	defer sub.Close()
	version, err := notify.Await(r.Context(), sub, wait, s.draining, func(ctx context.Context) (string, bool, error) {
		version, unclaimed, err := s.DB.InboxState(ctx, e.Account, e.ID)
		if unless != "" {
			return version, version != unless, err
		}
		return version, unclaimed, err
	})
	if err != nil {
		return err
	}
	rows, err := s.DB.Inbox(r.Context(), e.Account, e.ID, after.position(), limit+1)
	if err != nil {
		return err
	}
	list, next, err := inboxPage(rows, limit)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]any{"version": version, "inbox": list, "pagination": next})
}

// inboxPage renders a page of inbox rows, of which one more than limit was read.
func inboxPage(rows []*postgres.InboxRow, limit int) ([]inboxRow, pagination, error) {
	rows, next, err := nextPage(rows, limit, func(row *postgres.InboxRow) inboxPlace {
		return inboxPlace{At: row.DispatchedAt, Run: row.RunID, Key: row.TaskKey}
	})
	list := make([]inboxRow, len(rows))
	for i, row := range rows {
		list[i] = newInboxRow(row)
	}
	return list, next, err
}

// inboxTask names the task of the path. A task of another account is not found by any statement.
func inboxTask(r *http.Request) (toolpark.TaskID, error) {
	run, err := pathUUID(r, "run")
	if err != nil {
		return toolpark.TaskID{}, err
	}
	key, err := pathKey(r)
	return toolpark.TaskID{Account: executor(r).Account, Run: run, Key: key}, err
}

// work is what a push says of an inbox row.
type work struct {
	Run        uuid.UUID `json:"run_public_id"`
	TaskKey    string    `json:"task_key"`
	Generation int       `json:"generation"`
	Reason     string    `json:"reason,omitzero"` // of work_canceled: canceled, expired, terminated
}

// cancelReasons says why a claim is over, by what settled the task. A commit is the claimant's own.
var cancelReasons = map[string]string{
	string(toolpark.ByCancel):      "canceled",
	string(toolpark.ByExpiry):      "expired",
	string(toolpark.ByTermination): "terminated",
}

// presenceFor is how long an open stream counts as presence without another heartbeat.
const presenceFor = heartbeat*2 + streamWindow

// streamWork pushes the caller's work. An open stream is presence. Pushes are hints: whatever is lost the
// inbox lists, and this stream reads it again whenever something may have been missed.
func (s *Server) streamWork(w http.ResponseWriter, r *http.Request) error {
	e := executor(r)
	sub := s.Park.Hub.Subscribe(notify.InboxTopic(e.ID))
	defer sub.Close()
	if err := s.DB.MarkPresent(r.Context(), e.Account, e.ID, presenceFor); err != nil {
		return err
	}
	st, err := s.newStream(w, r)
	if err != nil {
		return err
	}
	defer st.Close()
	defer func() {
		// Another stream of the same executor marks it present again with its next heartbeat.
		_ = s.DB.MarkPresent(context.WithoutCancel(r.Context()), e.Account, e.ID, 0)
	}()
	pushes := pusher{stream: st, told: map[postgres.Listed]bool{}}
	presence := time.NewTicker(heartbeat)
	defer presence.Stop()
	missed := true // what was dispatched before the stream opened
	for {
		if missed {
			listed, err := s.DB.Listed(r.Context(), e.Account, e.ID)
			if err != nil {
				return nil //nolint:nilerr // the stream has begun: it ends, and the caller opens another
			}
			gone, err := s.DB.SettledBy(r.Context(), e.Account, pushes.vanished(listed))
			if err != nil {
				return nil //nolint:nilerr // as above
			}
			if err := pushes.all(listed, gone); err != nil {
				return nil //nolint:nilerr // nobody reads it any more
			}
		}
		select {
		case <-st.Done():
			return nil
		case <-presence.C:
			missed = false
			if err := s.DB.MarkPresent(r.Context(), e.Account, e.ID, presenceFor); err != nil {
				s.Log.WarnContext(r.Context(), "presence not noted", "executor", e.ID, "error", err)
			}
		case <-sub.C:
			var notes []string
			notes, missed = sub.Notes()
			for _, note := range notes {
				if err := pushes.note(note); err != nil {
					return nil //nolint:nilerr // nobody reads it any more
				}
			}
		}
	}
}

// pusher remembers which live rows it has told, so that reading the inbox again tells only what is new.
type pusher struct {
	stream *stream
	told   map[postgres.Listed]bool
}

func (p *pusher) note(note string) error {
	push, ok := notify.ParsePush(note)
	if !ok {
		return nil
	}
	row := postgres.Listed{RunID: push.RunID, TaskKey: push.TaskKey, Generation: push.Generation}
	if push.Reason == "" {
		return p.available(row)
	}
	return p.gone(row, push.Reason)
}

func (p *pusher) available(row postgres.Listed) error {
	if p.told[row] {
		return nil
	}
	p.told[row] = true
	return p.stream.Event("", "work_available", work{Run: row.RunID, TaskKey: row.TaskKey, Generation: row.Generation})
}

func (p *pusher) gone(row postgres.Listed, settledBy string) error {
	delete(p.told, row)
	reason := cancelReasons[settledBy]
	if reason == "" {
		return nil
	}
	return p.stream.Event("", "work_canceled", work{Run: row.RunID, TaskKey: row.TaskKey, Generation: row.Generation, Reason: reason})
}

// vanished are the rows that were told and are not listed any more.
func (p *pusher) vanished(listed []postgres.Listed) []postgres.Listed {
	live := make(map[postgres.Listed]bool, len(listed))
	for _, row := range listed {
		row.Claimed = false
		live[row] = true
	}
	var vanished []postgres.Listed
	for row := range p.told {
		if !live[row] {
			vanished = append(vanished, row)
		}
	}
	return vanished
}

// all tells the unclaimed rows of a whole inbox, and those rows that settled without the caller.
func (p *pusher) all(listed []postgres.Listed, gone []postgres.Ended) error {
	for _, ended := range gone {
		if err := p.gone(ended.Listed, ended.SettledBy); err != nil {
			return err
		}
	}
	for _, row := range listed {
		claimed := row.Claimed
		row.Claimed = false
		if claimed {
			p.told[row] = true
		} else if err := p.available(row); err != nil {
			return err
		}
	}
	return nil
}
