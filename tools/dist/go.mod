module github.com/kinesin-io/kinesin/tools/dist

go 1.26.8
