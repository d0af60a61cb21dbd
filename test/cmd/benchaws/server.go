package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/sdk"
)

const (
	prefix      = "bench"
	serverEndIn = 20 * time.Second
)

// bench is a run on its way.
type bench struct {
	settings
	endpoints awslocal.Endpoints
	out       io.Writer
	progress  io.Writer
	table     *tabwriter.Writer

	server *exec.Cmd
	url    string
	client *sdk.Client
	sqs    *sqs.Client
}

// start sets the tables and queues up and starts a server. Deliver jobs go through the schedule table
// whatever their due time, since that is what is to be measured.
func (b *bench) start(ctx context.Context) error {
	setup := b.command(ctx, "aws", "setup", "--aws-prefix", prefix)
	if text, err := setup.CombinedOutput(); err != nil {
		return fmt.Errorf("kinesin aws setup: %w: %s", err, text)
	}
	args := []string{
		"serve", "--store", "dynamodb", "--queue", "sqs", "--aws-prefix", prefix, "--inbound-queue=" + strconv.FormatBool(b.buffered),
		"--listen", "127.0.0.1:0", "--deliver-direct", "0s", "--log-level", "warn", "-o", "json",
	}
	if b.profile != "" {
		args = append(args, "--cpu-profile", b.profile)
	}
	b.server = b.command(ctx, args...)
	b.server.Stderr = b.progress
	b.server.Cancel = func() error { return b.server.Process.Signal(syscall.SIGTERM) }
	b.server.WaitDelay = serverEndIn
	out, err := b.server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := b.server.Start(); err != nil {
		return fmt.Errorf("start kinesin serve: %w", err)
	}
	var where struct {
		URL string `json:"url"`
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &where)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("kinesin serve did not say where it is: %w", err), b.server.Wait())
	}
	b.url = where.URL
	b.sqs = sqs.New(sqs.Options{
		BaseEndpoint: aws.String(b.endpoints.SQS), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("x", "x", ""),
	})
	b.client, err = sdk.NewClient(b.url)
	return err
}

func (b *bench) stop() {
	if b.client != nil {
		b.client.Close()
	}
	if b.server != nil && b.server.Process != nil {
		_ = b.server.Process.Signal(syscall.SIGTERM)
		_ = b.server.Wait()
	}
}

func (b *bench) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, b.kinesin, args...)
	c.Env = append(os.Environ(), b.endpoints.Env()...)
	return c
}

// spent is what the server has used up to a moment.
type spent struct {
	cpu      time.Duration
	requests map[string]float64 // by service
	writes   float64            // rows written
}

func (s spent) since(before spent) spent {
	d := spent{cpu: s.cpu - before.cpu, requests: map[string]float64{}, writes: s.writes - before.writes}
	for service, n := range s.requests {
		d.requests[service] = n - before.requests[service]
	}
	return d
}

// spent reads the server's metrics.
func (b *bench) spent(ctx context.Context) (spent, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/metrics", http.NoBody)
	if err != nil {
		return spent{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return spent{}, fmt.Errorf("read the server's metrics: %w", err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return spent{}, fmt.Errorf("read the server's metrics: %w", err)
	}
	s := spent{requests: map[string]float64{}}
	for name, f := range all {
		for _, m := range f.Metric {
			switch name {
			case "process_cpu_seconds_total":
				s.cpu = time.Duration(m.Counter.GetValue() * float64(time.Second))
			case "kinesin_aws_request_seconds":
				s.requests[label(m, "service")] += float64(m.Histogram.GetSampleCount())
			case "kinesin_dynamodb_rows_total":
				if isWrite(label(m, "request")) {
					s.writes += m.Counter.GetValue()
				}
			}
		}
	}
	return s, nil
}

func isWrite(request string) bool {
	switch request {
	case "batchexecutestatement", "putitem", "updateitem", "deleteitem":
		return true
	}
	return false
}

// label is a label's value in lower case.
func label(m *dto.Metric, name string) string {
	for _, l := range m.Label {
		if l.GetName() == name {
			return strings.ToLower(l.GetValue())
		}
	}
	return ""
}
