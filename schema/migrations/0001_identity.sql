-- Who acts on the API: tenants, people and agents, delivery addresses, and their bearers.

-- +goose Up
CREATE TABLE accounts (
    id uuid PRIMARY KEY,
    name text NOT NULL CHECK (name <> ''),
    workspace_id uuid NOT NULL UNIQUE,
    execution_details_retention_days integer DEFAULT 90 -- null keeps the details of ended runs
        CHECK (execution_details_retention_days BETWEEN 1 AND 36500),
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE members (
    id uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES accounts,
    kind text NOT NULL CHECK (kind IN ('human', 'agent')),
    handle text COLLATE "C" NOT NULL CHECK (handle ~ '^[a-z0-9][a-z0-9_-]{1,31}$'),
    display_name text NOT NULL,
    role text NOT NULL CHECK (role IN ('admin', 'member')),
    may_decide boolean NOT NULL DEFAULT false,
    status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'removed')),
    steward_id uuid,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (account_id, handle),
    UNIQUE (account_id, id),
    FOREIGN KEY (account_id, steward_id) REFERENCES members (account_id, id),
    CHECK ((kind = 'agent') = (steward_id IS NOT NULL)),
    CHECK (kind = 'agent' OR NOT may_decide),
    CHECK (kind = 'human' OR role = 'member')
);

-- An agent's standing configuration: what its new work may call. Replaced whole.
CREATE TABLE profiles (
    member_id uuid PRIMARY KEY,
    account_id uuid NOT NULL,
    configuration json NOT NULL, -- as sent, verbatim
    updated_at timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (account_id, member_id) REFERENCES members (account_id, id)
);

CREATE TABLE executors (
    id uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES accounts,
    kind text NOT NULL CHECK (kind IN ('agent_application', 'runner', 'tools_provider')),
    display_name text NOT NULL,
    identifier text COLLATE "C" NOT NULL,
    status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'revoked')),
    credential_epoch integer NOT NULL DEFAULT 1 CHECK (credential_epoch > 0),
    assignment_scope text NOT NULL CHECK (assignment_scope IN ('user_private', 'account_wide')),
    manager_id uuid NOT NULL,
    agent_id uuid UNIQUE,
    shutting_down boolean NOT NULL DEFAULT false,
    environment json NOT NULL DEFAULT '{}',
    documents json NOT NULL DEFAULT '[]',
    announced_at timestamptz,
    connected_at timestamptz,
    present_until timestamptz, -- an open event stream keeps moving this
    last_seen_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (account_id, id),
    UNIQUE (account_id, manager_id, identifier),
    FOREIGN KEY (account_id, manager_id) REFERENCES members (account_id, id),
    FOREIGN KEY (account_id, agent_id) REFERENCES members (account_id, id),
    CHECK ((kind = 'agent_application') = (agent_id IS NOT NULL))
);

-- The tools an executor serves now: its latest announcement, one row a tool.
CREATE TABLE executor_tools (
    executor_id uuid NOT NULL REFERENCES executors,
    name text COLLATE "C" NOT NULL,
    account_id uuid NOT NULL,
    position integer NOT NULL,
    effect_profile json NOT NULL,
    timeout_ms bigint,
    model_visible boolean NOT NULL, -- it has a description and an input schema
    output_schema_hash bytea,
    entry json NOT NULL, -- as announced, verbatim
    PRIMARY KEY (executor_id, name)
);
CREATE INDEX executor_tools_by_name ON executor_tools (account_id, name);
CREATE INDEX executor_tools_by_schema ON executor_tools (account_id, output_schema_hash) WHERE output_schema_hash IS NOT NULL;

-- Output schemas by content: a task keeps the hash it was accepted with.
CREATE TABLE output_schemas (
    account_id uuid NOT NULL REFERENCES accounts,
    hash bytea NOT NULL, -- SHA-256 of the document's bytes
    document json NOT NULL,
    used_at timestamptz NOT NULL DEFAULT now(), -- when it was announced or dropped last, to within half a day
    PRIMARY KEY (account_id, hash)
);

CREATE TABLE credentials (
    id uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES accounts,
    plane text NOT NULL CHECK (plane IN ('member', 'executor')),
    member_id uuid,
    executor_id uuid,
    epoch integer,
    secret_hash bytea NOT NULL UNIQUE, -- SHA-256 of the bearer; the bearer itself is shown once and never stored
    label text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    FOREIGN KEY (account_id, member_id) REFERENCES members (account_id, id),
    FOREIGN KEY (account_id, executor_id) REFERENCES executors (account_id, id),
    CHECK ((plane = 'member') = (member_id IS NOT NULL)),
    CHECK ((plane = 'executor') = (executor_id IS NOT NULL AND epoch IS NOT NULL))
);
CREATE INDEX credentials_of_executor ON credentials (executor_id, epoch);
CREATE INDEX credentials_of_member ON credentials (member_id);

CREATE TABLE idempotency_keys (
    account_id uuid NOT NULL,
    owner_id uuid NOT NULL, -- the member whose credential sent it
    key text COLLATE "C" NOT NULL,
    request_hash bytea NOT NULL, -- SHA-256 of method, path and body
    run_id uuid, -- set for a run: its replay renders the run as it is now
    status integer NOT NULL,
    body json,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, owner_id, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
CREATE INDEX idempotency_keys_by_run ON idempotency_keys (run_id) WHERE run_id IS NOT NULL;
