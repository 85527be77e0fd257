package document

import (
	"time"

	"github.com/profllm/profllm/pkg/store"
)

// StoreFill is the answer of store fill and store rebuild.
type StoreFill struct {
	Head
	Store      string      `json:"store"`             // its file or URL, without a password
	Stored     int         `json:"stored"`            // runs that are new
	Updated    int         `json:"updated"`           // runs of which the store had another record
	Duplicates int         `json:"duplicates"`        // runs whose record the store had
	Missing    int         `json:"missing"`           // runs without a record yet
	Refused    int         `json:"refused"`           // runs whose record cannot be stored
	Kept       int         `json:"kept,omitempty"`    // rebuild: runs whose folders are no more
	Runs       []StoredRun `json:"runs"`              // all but duplicates
	Formers    int         `json:"formers,omitempty"` // rebuild: former records that were kept
	Took       float64     `json:"took_s,omitempty"`  // seconds
}

// StoredRun is what became of a run.
type StoredRun struct {
	Dir string    `json:"dir"`
	ID  string    `json:"id,omitempty"` // in the store
	Did store.Did `json:"did"`          // stored, updated or refused
	Why string    `json:"why,omitempty"`
}

// StoreInfo is the answer of store info.
type StoreInfo struct {
	Head
	store.Info
}

// StoreVerify is the answer of store verify.
type StoreVerify struct {
	Head
	store.Check
}

// StoreBackup is the answer of store backup and store restore.
type StoreBackup struct {
	Head
	Store   string `json:"store"`
	File    string `json:"file"`
	Runs    int    `json:"runs"`
	Formers int    `json:"formers"` // former records
	Bytes   int64  `json:"bytes"`   // of the file
}

// StorePrune is the answer of store prune.
type StorePrune struct {
	Head
	Store   string     `json:"store"`
	Formers int        `json:"formers"`           // former records that were removed
	Runs    int        `json:"runs"`              // runs that were removed
	Archive string     `json:"archive,omitempty"` // file that has them
	Before  *time.Time `json:"before,omitempty"`  // runs that began before
}
