package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/toolpark/toolpark"
)

// waitMS reads how long a long poll may take; 0 when the caller does not want to wait.
func waitMS(r *http.Request) (time.Duration, error) {
	query := r.URL.Query()
	if !query.Has("wait_ms") {
		return 0, nil
	}
	ms, err := strconv.Atoi(query.Get("wait_ms"))
	if err != nil || ms < 0 || ms > int(toolpark.MaxWait.Milliseconds()) {
		return 0, parameterInvalid("wait_ms must be an integer from 0 to %d.", toolpark.MaxWait.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, nil
}
