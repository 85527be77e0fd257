package document

import "github.com/profllm/profllm/pkg/store"

// StoreFill is the answer of store fill and store rebuild.
type StoreFill struct {
	Head
	Store      string `json:"store"`      // its file or URL, without a password
	Stored     int    `json:"stored"`     // runs that are new
	Updated    int    `json:"updated"`    // runs of which the store had another record
	Duplicates int    `json:"duplicates"` // runs whose record the store had
	Missing    int    `json:"missing"`    // runs without a record yet
	Refused    int    `json:"refused"`    // runs whose record cannot be stored
	// rebuild: runs that were not found, which only the store has
	Kept      int         `json:"kept,omitempty"`
	Forgotten int         `json:"forgotten,omitempty"` // rebuild --forget: runs that were removed
	Runs      []StoredRun `json:"runs"`                // all but duplicates and runs without a record
}

// StoredRun is one of these runs: what became of a run.
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
	Store   string `json:"store"`   // its file or URL, without a password
	File    string `json:"file"`    // the backup
	Bytes   int64  `json:"bytes"`   // of that file
	Runs    int    `json:"runs"`    // in it
	Formers int    `json:"formers"` // former records in it
	Presets int    `json:"presets"` // in it
	Stored  int    `json:"stored"`  // restore: runs that the store did not have
	Updated int    `json:"updated"` // restore: runs of which the store had another record
}

// StorePrune is the answer of store prune.
type StorePrune struct {
	Head
	Store   string `json:"store"`             // its file or URL, without a password
	Formers int    `json:"formers"`           // former records that were removed
	Runs    int    `json:"runs"`              // runs that were removed
	Archive string `json:"archive,omitempty"` // file that has these runs
}
