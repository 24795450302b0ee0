package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// maxAway is how long at most a process stays away after a kill.
const maxAway = 3 * time.Second

// victim is a process that can be killed and started again.
type victim struct {
	name  string
	kill  func() error
	start func(context.Context) error
}

// killer kills one of its victims after the other. Killers work side by side, so several processes may be
// away at once.
type killer struct {
	random  *rand.Rand
	pause   time.Duration // about half of it passes between a return and the next kill
	victims []victim
	kills   map[string]int
}

func newKiller(seed, number uint64, pause time.Duration, victims []victim) *killer {
	return &killer{random: rand.New(rand.NewPCG(seed, number)), pause: pause, victims: victims, kills: map[string]int{}}
}

// run kills until killing ends. When it returns nil its victims are up.
func (k *killer) run(ctx, killing context.Context) error {
	for {
		v := k.victims[k.random.IntN(len(k.victims))]
		pause, away := k.upTo(k.pause), k.upTo(maxAway)
		select {
		case <-killing.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		fmt.Printf("killing %s for %.1f s\n", v.name, away.Seconds())
		if err := v.kill(); err != nil {
			return fmt.Errorf("kill %s: %w", v.name, err)
		}
		k.kills[v.name]++
		time.Sleep(away)
		if err := v.start(ctx); err != nil {
			return fmt.Errorf("start %s again: %w", v.name, err)
		}
	}
}

func (k *killer) upTo(limit time.Duration) time.Duration {
	return time.Duration(k.random.Int64N(int64(limit)))
}

func (k *killer) print() {
	for _, name := range slices.Sorted(maps.Keys(k.kills)) {
		fmt.Printf("killed %-9s %3d times\n", name, k.kills[name])
	}
}
