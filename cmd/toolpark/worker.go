package main

import (
	"context"

	"github.com/toolpark/toolpark/internal/kernel"
)

// WorkerCmd runs the Temporal worker until it is told to stop.
type WorkerCmd struct {
	DatabaseConfig `embed:""`
	PoolConfig     `embed:""`
	TemporalConfig `embed:""`
	LogConfig      `embed:""`
}

// Validate refuses settings that no worker can run with.
func (c *WorkerCmd) Validate() error { return c.PoolConfig.check() }

// Run works until ctx ends, then drains.
func (c *WorkerCmd) Run(ctx context.Context) error {
	logger := c.Logger()
	config, err := c.kernel(c.DatabaseConfig, c.PoolConfig, logger)
	if err != nil {
		return err
	}
	k, err := kernel.Open(ctx, config)
	if err != nil {
		return err
	}
	defer k.Close()
	return k.Worker().Run(ctx)
}
