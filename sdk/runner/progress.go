package runner

import (
	"context"
	"encoding/json/jsontext"
	"sync"
	"time"

	"github.com/toolpark/toolpark"
)

// progress returns the function by which a tool shows frames. A frame that cannot be sent yet gives way
// to the next.
func (l *loop) progress(ctx context.Context, ref Ref, token string) func(jsontext.Value) {
	var start sync.Once
	newest := make(chan jsontext.Value, 1)
	send := func() {
		for {
			select {
			case <-ctx.Done():
				return
			case frame := <-newest:
				if err := l.client.Progress(ctx, ref, token, frame); err != nil && ctx.Err() == nil {
					l.log.Debug("a progress frame was not taken", "run", ref.Run, "task", ref.TaskKey, "error", err)
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(toolpark.ProgressInterval):
			}
		}
	}
	return func(frame jsontext.Value) {
		if len(frame) > toolpark.MaxProgressFrame || !frame.IsValid() {
			l.log.Debug("a progress frame is not JSON of at most 4 KiB", "run", ref.Run, "task", ref.TaskKey)
			return
		}
		start.Do(func() { go send() })
		select { // make room: only the newest matters
		case <-newest:
		default:
		}
		select {
		case newest <- frame.Clone():
		default:
		}
	}
}
