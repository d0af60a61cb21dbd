package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Metrics of the server.
const (
	cpuSeries  = "process_cpu_seconds_total "
	heapSeries = "go_memstats_heap_inuse_bytes "
)

// ServerCPU returns a function that reads the CPU time of the server at a URL from its metrics.
func ServerCPU(client *http.Client, server string) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		seconds, err := readSeries(ctx, client, server, cpuSeries)
		return time.Duration(seconds * float64(time.Second)), err
	}
}

// ServerSeries returns a function that reads a series, with its labels, of the server at a URL.
func ServerSeries(client *http.Client, server string) func(ctx context.Context, series string) (float64, error) {
	return func(ctx context.Context, series string) (float64, error) {
		return readSeries(ctx, client, server, series+" ")
	}
}

// readSeries reads a series without labels, or with those that it names, of the server at a URL.
func readSeries(ctx context.Context, client *http.Client, server, series string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(server, "/")+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("read the server's metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("read the server's metrics: %s/metrics answers %s", server, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), series); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("the metrics of %s have no %s", server, series), lines.Err())
}
