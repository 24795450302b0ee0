package declaration

import (
	"encoding/json/jsontext"
	"uuid"
)

// RunnersList is what the kernel's runners_list answers, as canonical JSON: the default runner and the
// candidates as they were frozen, {"current_runner_executor_public_id","runners":[…]}.
func (c *Context) RunnersList() (jsontext.Value, error) {
	return canonical(struct {
		Current *uuid.UUID          `json:"current_runner_executor_public_id"`
		Runners []RunnerEnvironment `json:"runners"`
	}{c.Environment.DefaultRunner, c.Environment.RunnerCandidates})
}
