package main

import (
	"context"

	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/worker"
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
	k, err := openKernel(ctx, c.DatabaseConfig, c.PoolConfig, c.TemporalConfig, park.Tokens{}, logger)
	if err != nil {
		return err
	}
	defer k.stop()
	w := &worker.Worker{
		Client: k.temporal, Namespace: k.namespace, Queue: c.TaskQueue, Park: k.park, Delivery: k.delivery, Log: logger,
		Connections: int(c.DatabaseConnections),
	}
	return w.Run(ctx)
}
