package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/dial"
	"github.com/kinesin-io/kinesin/sdk"
)

// Metrics of the server.
const (
	cpuSeries  = "process_cpu_seconds_total"
	rssSeries  = "process_resident_memory_bytes"
	heapSeries = "go_memstats_heap_inuse_bytes"
)

// Server is the server that is measured.
type Server struct {
	Client *sdk.Client
	Direct dial.Clients // for what the SDK does not offer
}

// cpu returns the CPU time that the server has used, by its metrics.
func (s *Server) cpu(ctx context.Context) (time.Duration, error) {
	seconds, err := s.series(ctx, cpuSeries)
	return time.Duration(seconds * float64(time.Second)), err
}

// cpuOf returns the CPU time that the server uses per 1,000 tasks, of which do has so many run.
func (s *Server) cpuOf(ctx context.Context, tasks int, do func() error) (seconds float64, err error) {
	before, err := s.cpu(ctx)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := s.cpu(ctx)
	return perThousand(after-before, tasks), err
}

// heap returns the bytes in the server's heap, by its metrics.
func (s *Server) heap(ctx context.Context) (float64, error) { return s.series(ctx, heapSeries) }

// rss returns the bytes of memory that the server's process has, by its metrics.
func (s *Server) rss(ctx context.Context) (float64, error) { return s.series(ctx, rssSeries) }

// url returns the URL of a page of the server.
func (s *Server) url(page string) string { return strings.TrimRight(s.Direct.Base, "/") + page }

// series reads a series of the server: its name, with its labels if it has some.
func (s *Server) series(ctx context.Context, series string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url("/metrics"), http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := s.Direct.Calls.Do(request)
	if err != nil {
		return 0, fmt.Errorf("read the server's metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("read the server's metrics: %s answers %s", request.URL, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), series+" "); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("the metrics of %s have no %s", s.Direct.Base, series), lines.Err())
}
