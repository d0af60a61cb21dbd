package cost

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"

	"go.yaml.in/yaml/v3"
)

const (
	monthHours   = 730
	monthSeconds = monthHours * 3600
	million      = 1e6
	gigabyte     = 1e9
)

// Line is one item of a bill, with on-demand and with provisioned capacity.
type Line struct {
	OnDemandMonth      float64 `json:"on_demand_month"`
	ProvisionedMonth   float64 `json:"provisioned_month"`
	OnDemandMillion    float64 `json:"on_demand_per_million"`
	ProvisionedMillion float64 `json:"provisioned_per_million"`
}

// Bill is the cost of a load, with that of alternatives for comparison.
type Bill struct {
	Load    Load   `json:"load"`
	Prices  Prices `json:"prices"`
	PerTask Usage  `json:"per_task"`
	Idle    Usage  `json:"idle_per_second"`

	TasksMonth float64 `json:"tasks_month"`
	WriteUnits float64 `json:"write_capacity"` // provisioned units per second
	ReadUnits  float64 `json:"read_capacity"`

	Writes  Line `json:"writes"`
	Reads   Line `json:"reads"`
	SQS     Line `json:"sqs"`
	Storage Line `json:"storage"`
	Total   Line `json:"total"`

	Dynein             Line    `json:"dynein"`            // the same load in Dynein: 3 write units and 4 SQS requests per job
	EventBridge        float64 `json:"eventbridge_month"` // EventBridge Scheduler, beyond the free tier
	EventBridgeMillion float64 `json:"eventbridge_per_million"`
	// ProvisionedFrom is the mean utilization above which provisioned capacity is cheaper than on demand.
	ProvisionedFrom float64 `json:"provisioned_wins_from_utilization"`
	// BeatsEventBridgeFrom is the rate in tasks per second above which the lower total is below the price of
	// EventBridge Scheduler; 0 if there is none.
	BeatsEventBridgeFrom float64 `json:"beats_eventbridge_from_tasks_per_second"`
}

// Of computes the bill of a load. Load and prices must be valid.
func Of(l Load, p Prices) Bill {
	if l.PeakRate == 0 {
		l.PeakRate = l.Rate
	}
	b := bill(l, p)
	b.BeatsEventBridgeFrom = beatsFrom(l, p)
	return b
}

func bill(l Load, p Prices) Bill {
	b := Bill{Load: l, Prices: p, PerTask: PerTask(l), Idle: Idle(l), TasksMonth: l.Rate * monthSeconds}
	mean := b.PerTask.times(l.Rate).plus(b.Idle)
	peak := b.PerTask.times(l.PeakRate).plus(b.Idle)
	b.WriteUnits = math.Ceil(peak.WriteUnits / l.Utilization)
	b.ReadUnits = math.Ceil(peak.ReadUnits / l.Utilization)
	b.Writes = b.line(mean.WriteUnits*monthSeconds/million*p.DynamoDB.WritePerMillion, b.WriteUnits*monthHours*p.DynamoDB.WriteCapacityHour)
	b.Reads = b.line(mean.ReadUnits*monthSeconds/million*p.DynamoDB.ReadPerMillion, b.ReadUnits*monthHours*p.DynamoDB.ReadCapacityHour)
	b.SQS = b.same(p.sqs(mean.SQSRequests * monthSeconds))
	b.Storage = b.same(storedBytes(l) / gigabyte * p.DynamoDB.StorageGBMonth)
	b.Total = b.sum(b.Writes, b.Reads, b.SQS, b.Storage)
	b.Dynein = b.dynein()
	b.EventBridge = max(0, b.TasksMonth-p.EventBridge.FreeInvocationsMonth) / million * p.EventBridge.InvocationPerMillion
	b.EventBridgeMillion = b.EventBridge / b.TasksMonth * million
	b.ProvisionedFrom = p.DynamoDB.WriteCapacityHour / 3600 * million / p.DynamoDB.WritePerMillion
	return b
}

// dynein returns the cost in Dynein as measured: 3 write units and 4 SQS requests per job, without batches.
func (b *Bill) dynein() Line {
	const writes, requests = 3, 4
	d := &b.Prices.DynamoDB
	sqs := b.Prices.sqs(requests * b.TasksMonth)
	return b.line(
		writes*b.TasksMonth/million*d.WritePerMillion+sqs,
		math.Ceil(writes*b.Load.PeakRate/b.Load.Utilization)*monthHours*d.WriteCapacityHour+sqs)
}

func (p *Prices) sqs(requests float64) float64 {
	return max(0, requests-p.SQS.FreeRequestsMonth) / million * p.SQS.RequestPerMillion
}

// storedBytes returns the mean size of the tables: waiting tasks, and ended ones until their retention is
// over.
func storedBytes(l Load) float64 {
	row := float64(taskRowBytes + storageOverheadBytes + l.PayloadBytes)
	kept := l.Wait.Seconds() * l.ScheduledShare
	if l.Mode == Managed {
		kept += l.Retention.Seconds()
	}
	return l.Rate * kept * row
}

func (b *Bill) line(onDemand, provisioned float64) Line {
	return Line{onDemand, provisioned, onDemand / b.TasksMonth * million, provisioned / b.TasksMonth * million}
}

func (b *Bill) same(amount float64) Line { return b.line(amount, amount) }

func (b *Bill) sum(lines ...Line) Line {
	var onDemand, provisioned float64
	for _, l := range lines {
		onDemand += l.OnDemandMonth
		provisioned += l.ProvisionedMonth
	}
	return b.line(onDemand, provisioned)
}

// beatsFrom searches the rate, with the load's shape, above which the lower of the two totals is below the
// price of EventBridge Scheduler. Both grow with the rate, ours has a fixed part and theirs a free one, so
// there is one such rate or none.
func beatsFrom(l Load, p Prices) float64 {
	shape := l.PeakRate / l.Rate
	cheaper := func(rate float64) bool {
		l.Rate, l.PeakRate = rate, rate*shape
		b := bill(l, p)
		return min(b.Total.OnDemandMonth, b.Total.ProvisionedMonth) < b.EventBridge
	}
	low, high := 0.001, float64(RateMax)
	if !cheaper(high) {
		return 0
	}
	for range 64 {
		if middle := math.Sqrt(low * high); cheaper(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// DefaultPrices is the price list as a file, to be copied and edited.
//
//go:embed prices.yaml
var DefaultPrices []byte

// ErrPrices is returned for an invalid price list; the text says why.
var ErrPrices = errors.New("price list refused")

// Prices is a price list with its date and source. All prices are in Currency.
type Prices struct {
	Currency string `yaml:"currency" json:"currency"`
	Region   string `yaml:"region" json:"region"`
	Date     string `yaml:"date" json:"date"`
	Source   string `yaml:"source" json:"source"`

	DynamoDB    DynamoDBPrices    `yaml:"dynamodb" json:"dynamodb"`
	SQS         SQSPrices         `yaml:"sqs" json:"sqs"`
	EventBridge EventBridgePrices `yaml:"eventbridge_scheduler" json:"eventbridge_scheduler"`
}

// DynamoDBPrices are the prices of on-demand units, of provisioned units per hour, and of storage per month.
type DynamoDBPrices struct {
	WritePerMillion   float64 `yaml:"write_per_million" json:"write_per_million"`
	ReadPerMillion    float64 `yaml:"read_per_million" json:"read_per_million"`
	WriteCapacityHour float64 `yaml:"write_capacity_hour" json:"write_capacity_hour"`
	ReadCapacityHour  float64 `yaml:"read_capacity_hour" json:"read_capacity_hour"`
	StorageGBMonth    float64 `yaml:"storage_gb_month" json:"storage_gb_month"`
}

// SQSPrices are the prices of requests to standard queues.
type SQSPrices struct {
	RequestPerMillion float64 `yaml:"request_per_million" json:"request_per_million"`
	FreeRequestsMonth float64 `yaml:"free_requests_month" json:"free_requests_month"`
}

// EventBridgePrices are the prices of EventBridge Scheduler, for comparison.
type EventBridgePrices struct {
	InvocationPerMillion float64 `yaml:"invocation_per_million" json:"invocation_per_million"`
	FreeInvocationsMonth float64 `yaml:"free_invocations_month" json:"free_invocations_month"`
}

// ReadPrices reads a price list in the form of DefaultPrices. Every price must be set and none negative. Its
// errors are ErrPrices, or those of r.
func ReadPrices(r io.Reader) (Prices, error) {
	const fileBytesMax = 64 << 10
	text, err := io.ReadAll(io.LimitReader(r, fileBytesMax))
	if err != nil {
		return Prices{}, fmt.Errorf("read the price list: %w", err)
	}
	var p Prices
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&p); err != nil {
		return Prices{}, fmt.Errorf("%w: %w", ErrPrices, err)
	}
	return p, p.check()
}

func (p *Prices) check() error {
	var errs []error
	for _, text := range []struct{ name, value string }{{"currency", p.Currency}, {"date", p.Date}, {"source", p.Source}} {
		if text.value == "" {
			errs = append(errs, fmt.Errorf("%w: %s is missing", ErrPrices, text.name))
		}
	}
	for _, price := range []struct {
		name  string
		value float64
	}{
		{"dynamodb.write_per_million", p.DynamoDB.WritePerMillion},
		{"dynamodb.read_per_million", p.DynamoDB.ReadPerMillion},
		{"dynamodb.write_capacity_hour", p.DynamoDB.WriteCapacityHour},
		{"dynamodb.read_capacity_hour", p.DynamoDB.ReadCapacityHour},
		{"sqs.request_per_million", p.SQS.RequestPerMillion},
		{"eventbridge_scheduler.invocation_per_million", p.EventBridge.InvocationPerMillion},
	} {
		if !(price.value > 0) {
			errs = append(errs, fmt.Errorf("%w: %s is %v: want a price above 0", ErrPrices, price.name, price.value))
		}
	}
	for _, amount := range []struct {
		name  string
		value float64
	}{
		{"dynamodb.storage_gb_month", p.DynamoDB.StorageGBMonth},
		{"sqs.free_requests_month", p.SQS.FreeRequestsMonth},
		{"eventbridge_scheduler.free_invocations_month", p.EventBridge.FreeInvocationsMonth},
	} {
		if !(amount.value >= 0) {
			errs = append(errs, fmt.Errorf("%w: %s is %v: want 0 or more", ErrPrices, amount.name, amount.value))
		}
	}
	return errors.Join(errs...)
}
