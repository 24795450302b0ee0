-- Runs, rounds and tasks: what is true of each park. Its workflow holds the time and does the settling.

-- +goose Up
-- What a run, or one round of it, may call, decided once and immutable, stored by content.
CREATE TABLE frozen_contexts (
    account_id uuid NOT NULL REFERENCES accounts,
    hash bytea NOT NULL, -- SHA-256 of the document's bytes
    document json NOT NULL,
    output_schemas bytea[] NOT NULL DEFAULT '{}', -- the hashes that its document names
    used_at timestamptz NOT NULL DEFAULT now(), -- when it was frozen last, to within half a day
    PRIMARY KEY (account_id, hash)
);
CREATE INDEX frozen_contexts_by_schema ON frozen_contexts USING gin (output_schemas);

-- What a model was offered, in its provider's form, for the rounds that say so; stored by content.
CREATE TABLE projections (
    account_id uuid NOT NULL REFERENCES accounts,
    digest text COLLATE "C" NOT NULL,
    format text NOT NULL CHECK (format IN ('chat_completions', 'responses', 'anthropic')),
    tools json NOT NULL,
    used_at timestamptz NOT NULL DEFAULT now(), -- when it was offered last, to within half a day
    PRIMARY KEY (account_id, digest)
);

CREATE TABLE runs (
    id uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES accounts,
    creator_id uuid NOT NULL,
    agent_id uuid, -- null when a human made the run
    status text NOT NULL CHECK (status IN ('accepting', 'refused', 'running', 'stopping', 'completed', 'canceled')),
    approval_mode text,
    default_runner_id uuid,
    context_hash bytea,
    requested json, -- the configuration asked for, until it is decided; null for the agent's profile
    requested_tool_names text[], -- narrows what is frozen; null for all of it
    refusal json,
    label text,
    metadata json NOT NULL DEFAULT '{}',
    rounds integer NOT NULL DEFAULT 0,
    appends integer NOT NULL DEFAULT 0,
    event_seq bigint NOT NULL DEFAULT 0,
    stop_forced boolean NOT NULL DEFAULT false, -- its live tasks are to be canceled
    wake_at timestamptz, -- when the recovery loop nudges the run's workflow
    wake_attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    authored_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    details_pruned_at timestamptz, -- from here on nobody reads its details: they are being deleted, or are gone
    details_gone_at timestamptz, -- the last of them was deleted
    pruned_tasks json, -- how many tasks were deleted, by status; null until it is pruned
    FOREIGN KEY (account_id, creator_id) REFERENCES members (account_id, id),
    FOREIGN KEY (account_id, agent_id) REFERENCES members (account_id, id),
    FOREIGN KEY (account_id, default_runner_id) REFERENCES executors (account_id, id),
    FOREIGN KEY (account_id, context_hash) REFERENCES frozen_contexts (account_id, hash),
    CHECK (details_pruned_at IS NULL OR status IN ('completed', 'canceled')),
    CHECK ((details_pruned_at IS NULL) = (pruned_tasks IS NULL))
);
CREATE INDEX runs_of_account ON runs (account_id, id);
CREATE INDEX runs_to_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_refused ON runs (ended_at) WHERE status = 'refused';
CREATE INDEX runs_to_prune ON runs (account_id, ended_at)
    WHERE status IN ('completed', 'canceled') AND details_pruned_at IS NULL;
CREATE INDEX runs_half_pruned ON runs (details_pruned_at) WHERE details_gone_at IS NULL AND details_pruned_at IS NOT NULL;
CREATE INDEX runs_of_context ON runs (account_id, context_hash) WHERE context_hash IS NOT NULL;

CREATE TABLE rounds (
    run_id uuid NOT NULL REFERENCES runs ON DELETE CASCADE,
    number integer NOT NULL,
    account_id uuid NOT NULL,
    context_hash bytea, -- what this round alone may call; null for what its run may
    tool_names text[], -- the part of it that was offered; null for all of it
    offered text COLLATE "C", -- the digest of the projection that its model was offered, if that was said
    created_at timestamptz NOT NULL DEFAULT now(),
    settled_at timestamptz,
    PRIMARY KEY (run_id, number),
    FOREIGN KEY (account_id, context_hash) REFERENCES frozen_contexts (account_id, hash),
    FOREIGN KEY (account_id, offered) REFERENCES projections (account_id, digest)
);
CREATE INDEX rounds_of_context ON rounds (account_id, context_hash) WHERE context_hash IS NOT NULL;
CREATE INDEX rounds_offered ON rounds (account_id, offered) WHERE offered IS NOT NULL;

CREATE TABLE tasks (
    run_id uuid NOT NULL REFERENCES runs ON DELETE CASCADE,
    key text COLLATE "C" NOT NULL,
    account_id uuid NOT NULL,
    round integer, -- null for what the append door authored, and for a child
    parent_key text COLLATE "C", -- the kernel tool's call that made this task; null for any other
    position integer NOT NULL, -- in its round, or in its append
    generation integer NOT NULL DEFAULT 1,
    kind text NOT NULL CHECK (kind IN ('tool', 'ask', 'wait')),
    origin text NOT NULL CHECK (origin IN ('model', 'author', 'kernel')),
    status text NOT NULL CHECK (status IN ('needs_approval', 'dispatched', 'running', 'awaiting_input',
        'completed', 'failed', 'canceled', 'timed_out', 'uncertain')),
    callable_name text, -- as the model spelled it
    tool_name text, -- as the executor serves it, or a kernel tool's wire name
    tool_alias text, -- the alias it was called under; null for its own name
    kernel_tool text, -- the canonical name of a kernel tool; null for what executors serve
    tool_call_id text, -- the provider's pairing key
    addressed_role text, -- runner, agent_application, tools_provider
    addressed_to uuid[] NOT NULL DEFAULT '{}', -- who may claim: one executor, or every member of a pool
    waits_for text COLLATE "C", -- the task whose settlement ends this one; null for any other
    watched boolean NOT NULL DEFAULT false, -- a task waits for this one
    target_name text, -- whom an operator reads it is for: the executor's display name when it was accepted
    effect_profile json,
    approval json, -- what let it run, when a rule or somebody did; null when its mode or origin did, or nothing yet
    output_schema_hash bytea,
    timeout_ms bigint,
    announced_timeout_ms bigint, -- bounds one extension; null when none was announced
    began_at timestamptz NOT NULL, -- when this generation was authored
    dispatched_at timestamptz, -- null while it needs approval
    deadline_at timestamptz, -- the park's clock; an approval and a claim restart it, an extension moves it
    claimed_by uuid,
    claimed_at timestamptz,
    claim_token_hash bytea,
    claim_shown boolean NOT NULL DEFAULT false, -- the Web UI was told who holds the claim
    cancel_requested_at timestamptz,
    next_input integer NOT NULL DEFAULT 1, -- the seq of the next staged input
    settled_at timestamptz,
    settled_by text CHECK (settled_by IN ('birth', 'commit', 'cancel', 'expiry', 'termination', 'kernel',
        'decision', 'resolution')),
    is_error boolean NOT NULL DEFAULT false,
    answered_by uuid, -- of an ask: the member that answered it, or the application that it was addressed to
    error_key text,
    abandoned_at timestamptz, -- somebody gave the failure up: it is not retried any more
    abandoned_by uuid,
    revision bigint NOT NULL DEFAULT 1, -- bumped by every write a waiter may wait for
    wake_at timestamptz, -- when the recovery loop nudges the task's workflow; null when settled
    wake_attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, key),
    FOREIGN KEY (run_id, round) REFERENCES rounds (run_id, number) ON DELETE CASCADE,
    FOREIGN KEY (run_id, parent_key) REFERENCES tasks (run_id, key) ON DELETE CASCADE,
    CHECK (parent_key IS NULL OR round IS NULL),
    CHECK ((settled_at IS NOT NULL) = (status IN ('completed', 'failed', 'canceled', 'timed_out', 'uncertain'))),
    CHECK (settled_at IS NULL OR wake_at IS NULL),
    CHECK (settled_at IS NOT NULL OR wake_at IS NOT NULL),
    CHECK ((claimed_by IS NULL) = (claim_token_hash IS NULL))
) WITH (fillfactor = 70); -- room for claims and stagings, which touch no index, on the same page
CREATE INDEX tasks_of_round ON tasks (run_id, round, position);
CREATE INDEX tasks_of_parent ON tasks (run_id, parent_key) WHERE parent_key IS NOT NULL;
CREATE INDEX tasks_by_schema ON tasks (account_id, output_schema_hash) WHERE output_schema_hash IS NOT NULL;
CREATE INDEX tasks_live ON tasks (run_id, round) WHERE settled_at IS NULL;
CREATE INDEX tasks_to_wake ON tasks (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX tasks_for_people ON tasks (account_id, status, began_at, run_id, key) WHERE status IN ('needs_approval', 'awaiting_input');
CREATE INDEX tasks_waiting ON tasks (run_id, waits_for) WHERE waits_for IS NOT NULL AND settled_at IS NULL;

-- What a task was asked to do, per generation.
CREATE TABLE task_payloads (
    run_id uuid NOT NULL,
    task_key text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    account_id uuid NOT NULL,
    input json, -- what it runs with; null when the arguments were no JSON object
    original_input json, -- what was asked before an approver edited it; null when nobody did
    PRIMARY KEY (run_id, task_key, generation),
    FOREIGN KEY (run_id, task_key) REFERENCES tasks (run_id, key) ON DELETE CASCADE
);

-- How a task ended, per generation; written once, with its settlement.
CREATE TABLE task_results (
    run_id uuid NOT NULL,
    task_key text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    account_id uuid NOT NULL,
    content json, -- a list of blocks; null when blank
    structured_content json,
    title text,
    metadata json,
    error_detail text,
    rejected_result json, -- a report that broke the announced output schema
    PRIMARY KEY (run_id, task_key, generation),
    FOREIGN KEY (run_id, task_key) REFERENCES tasks (run_id, key) ON DELETE CASCADE
);

-- How each earlier generation of a task ended: its row as it was when it was retried.
CREATE TABLE task_generations (
    run_id uuid NOT NULL,
    task_key text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    account_id uuid NOT NULL,
    facts json NOT NULL, -- the columns of tasks
    PRIMARY KEY (run_id, task_key, generation),
    FOREIGN KEY (run_id, task_key) REFERENCES tasks (run_id, key) ON DELETE CASCADE
);

-- What somebody wants of a task: staged under the row's lock, judged in order by its workflow.
CREATE TABLE task_inputs (
    run_id uuid NOT NULL,
    task_key text COLLATE "C" NOT NULL,
    seq integer NOT NULL,
    generation integer NOT NULL,
    account_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('commit', 'cancel', 'terminated', 'child', 'approve', 'deny', 'resolution')),
    staged_at timestamptz NOT NULL, -- by the database, after the lock; lateness is judged by this
    actor_id uuid, -- the executor or member that staged it
    token_hash bytea,
    body bytea, -- a report as it came, a denial's reason or an edited input, until it is judged
    body_hash bytea,
    verdict json,
    judged_at timestamptz,
    PRIMARY KEY (run_id, task_key, seq),
    FOREIGN KEY (run_id, task_key) REFERENCES tasks (run_id, key) ON DELETE CASCADE
);

-- What an executor's inbox lists. Only a list to read: who is addressed is on the task.
CREATE TABLE deliveries (
    executor_id uuid NOT NULL,
    run_id uuid NOT NULL,
    task_key text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    account_id uuid NOT NULL,
    dispatched_at timestamptz NOT NULL,
    claimed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (run_id, task_key, executor_id),
    FOREIGN KEY (run_id, task_key) REFERENCES tasks (run_id, key) ON DELETE CASCADE
);
CREATE INDEX deliveries_of_executor ON deliveries (executor_id, dispatched_at, run_id, task_key);

CREATE TABLE events (
    run_id uuid NOT NULL REFERENCES runs ON DELETE CASCADE,
    seq bigint NOT NULL,
    account_id uuid NOT NULL,
    type text NOT NULL,
    data json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, seq)
);

-- The last progress frame of each live claim. Losing it on a crash costs nothing.
CREATE UNLOGGED TABLE progress (
    run_id uuid NOT NULL,
    task_key text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    account_id uuid NOT NULL,
    frame json NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, task_key)
);
