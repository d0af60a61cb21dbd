package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// MetricsConfig says which series there are. Its zero value means the defaults.
type MetricsConfig struct {
	// LambdasMax is how many lambdas have series of their own; 0: MetricLambdasDefault.
	LambdasMax int
	// NoNative leaves native histograms out. They are beside the classic ones, for scrapes that ask for them.
	NoNative bool
	Version  string // of the program; empty: what the Go toolchain recorded
}

// Native histograms tell values apart by 10 %, in at most 160 buckets; they are started anew once an hour at
// most when they need more.
const (
	nativeFactor     = 1.1
	nativeBucketsMax = 160
	nativeResetEvery = time.Hour
)

// histogram returns the options with those of a native histogram.
func (c MetricsConfig) histogram(o prometheus.HistogramOpts) prometheus.HistogramOpts {
	if !c.NoNative {
		o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber, o.NativeHistogramMinResetDuration = nativeFactor, nativeBucketsMax, nativeResetEvery
	}
	return o
}

// latenessBuckets range from an embedded store (below a millisecond) to a backlog of minutes.
var latenessBuckets = []float64{
	.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300,
}

func counters(f promauto.Factory, name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func counter(f promauto.Factory, name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}
