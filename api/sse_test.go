package api_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/api"
)

// streamed serves one stream and returns its lines as the caller reads them.
func streamed(t *testing.T, d *door, serve func(api.Stream)) (lines <-chan string, hangUp context.CancelFunc) {
	t.Helper()
	server := httptest.NewServer(d.Probe(func(w http.ResponseWriter, r *http.Request) error {
		st, err := d.NewStream(w, r)
		if err != nil {
			return err
		}
		defer st.Close()
		serve(st)
		return nil
	}))
	t.Cleanup(server.Close)
	ctx, hangUp := context.WithCancel(t.Context())
	t.Cleanup(hangUp)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	response, err := server.Client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { response.Body.Close() })
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "text/event-stream; charset=utf-8", response.Header.Get("Content-Type"))
	out := make(chan string)
	go func() {
		defer close(out)
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			select {
			case out <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, hangUp
}

func TestStream(t *testing.T) {
	t.Parallel()

	t.Run("an event arrives at once, on one line", func(t *testing.T) {
		t.Parallel()
		d := newDoor(t)
		sent := make(chan struct{})
		lines, _ := streamed(t, d, func(st api.Stream) {
			require.NoError(t, st.Event("7", "task_status", map[string]string{"text": "a\r\nb", "at": "<1>"}))
			require.NoError(t, st.Event("", "progress", 1))
			<-sent
		})
		for _, want := range []string{
			": open", "", "id: 7", "event: task_status", `data: {"at":"<1>","text":"a\r\nb"}`, "", "event: progress", "data: 1", "",
		} {
			require.Equal(t, want, <-lines)
		}
		close(sent)
	})

	t.Run("it ends at shutdown", func(t *testing.T) {
		t.Parallel()
		d := newDoor(t)
		ended := make(chan struct{})
		lines, _ := streamed(t, d, func(st api.Stream) {
			<-st.Done()
			require.Error(t, st.Event("1", "late", nil))
			close(ended)
		})
		require.Equal(t, ": open", <-lines)
		d.Drain()
		requireClosed(t, ended)
		for range lines { // until the server has closed it
		}
	})

	t.Run("it ends when the caller goes away", func(t *testing.T) {
		t.Parallel()
		d := newDoor(t)
		ended := make(chan struct{})
		lines, hangUp := streamed(t, d, func(st api.Stream) {
			<-st.Done()
			close(ended)
		})
		require.Equal(t, ": open", <-lines)
		hangUp()
		requireClosed(t, ended)
	})
}

func requireClosed(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("not within 5 s")
	}
}

func TestLastEventID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"": 0, "0": 0, "41": 41} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Last-Event-ID", text)
		got, err := api.LastEventID(r)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"x", "-1", "1.0", strings.Repeat("9", 30)} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Last-Event-ID", text)
		_, err := api.LastEventID(r)
		require.ErrorContains(t, err, string(toolpark.CodeParameterInvalid))
	}
}
