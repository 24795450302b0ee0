# Every target does its own set-up; a machine needs Go, git and a C compiler.
SHELL := /usr/bin/env bash
export GOTOOLCHAIN := go1.27.3

# Linters come from a module of their own and are built once per version of it.
LINT := $(CURDIR)/.toolpark/bin/lint-$(shell cksum < tools/lint/go.sum | cut -d' ' -f1)

# Packages whose code runs in several goroutines: their tests run under the race detector.
RACE := ./api/... ./worker/... ./sdk/... ./internal/notify/... ./internal/park/... ./internal/postgres/...
PLAIN = $(filter-out $(shell go list $(RACE)),$(shell go list ./...))

TESTSTACK := go run ./internal/devstack/teststack
FUZZTIME ?= 30s

.DEFAULT_GOAL := help
.PHONY: help build dev test test-short test-full test-race check vet lint workflowcheck format generate migrate bench chaos fuzz up down

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/toolpark
	go build -o bin/toolpark ./cmd/toolpark

dev: build ## Run the whole stack on this machine, with a demonstration
	bin/toolpark dev

# The plain packages wait more than they compute: one at a time fits beside those under the race detector.
test: ## Run all checks and all tests
	@status=0; \
	$(MAKE) --no-print-directory check || status=1; \
	$(TESTSTACK) -p 1 $(PLAIN) -- -race $(RACE) || status=1; \
	exit $$status

test-short: ## Run the tests without the slow ones
	$(TESTSTACK) -short ./...

# One group after the other: the long forms measure.
test-full: ## Run the tests in their long forms
	@status=0; \
	TOOLPARK_FULL=1 $(TESTSTACK) -timeout 60m $(PLAIN) || status=1; \
	TOOLPARK_FULL=1 $(TESTSTACK) -race -timeout 60m $(RACE) || status=1; \
	exit $$status

test-race: ## Run all tests under the race detector
	$(TESTSTACK) -race ./...

check: vet lint workflowcheck ## Run the static checks

vet: ## Run go vet
	go vet ./...

lint: $(LINT) ## Run the linters, and check the formatting
	$(LINT)/golangci-lint run ./...

workflowcheck: $(LINT) ## Look for nondeterminism in workflow code
	$(LINT)/workflowcheck ./workflows/...

format: $(LINT) ## Format the code
	$(LINT)/golangci-lint fmt ./...

$(LINT):
	@echo "building the linters, once; this takes a minute or two"
	cd tools/lint && GOBIN=$@.partial go install tool
	mv $@.partial $@

generate: ## Regenerate generated code
	go generate ./...

migrate: build ## Bring the database at DATABASE_URL and Temporal at TEMPORAL_ADDRESS up to date
	bin/toolpark migrate

bench: ## Measure against plain Temporal; ARGS go to the program
	go run ./internal/bench $(ARGS)

chaos: build ## Load the real processes while killing them, then audit; ARGS go to the program
	go run ./internal/chaos $(ARGS)

fuzz: ## Run every fuzz test for FUZZTIME each
	@set -e; grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do \
		for name in $$(grep -hoE '^func Fuzz\w*' $$dir/*_test.go | cut -d' ' -f2); do \
			go test $$dir -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME); \
		done; \
	done

up: ## Start the production layout with Docker Compose
	docker compose up --build --detach --wait

down: ## Stop what `up` started; its data stays
	docker compose down
