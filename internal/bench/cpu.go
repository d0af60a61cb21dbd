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

// cpuSeries is the metric of the server's CPU time.
const cpuSeries = "process_cpu_seconds_total "

// ServerCPU returns a function that reads the CPU time of the server at a URL from its metrics.
func ServerCPU(client *http.Client, server string) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(server, "/")+"/metrics", http.NoBody)
		if err != nil {
			return 0, err
		}
		response, err := client.Do(request)
		if err != nil {
			return 0, fmt.Errorf("read the server's CPU time: %w", err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("read the server's CPU time: %s/metrics answers %s", server, response.Status)
		}
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			if value, found := strings.CutPrefix(lines.Text(), cpuSeries); found {
				seconds, err := strconv.ParseFloat(value, 64)
				return time.Duration(seconds * float64(time.Second)), err
			}
		}
		return 0, errors.Join(fmt.Errorf("the metrics of %s have no %s", server, cpuSeries), lines.Err())
	}
}
