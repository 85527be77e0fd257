-- +goose Up
CREATE TABLE IF NOT EXISTS records (
	seq INTEGER PRIMARY KEY, -- of the run
	record BLOB NOT NULL, -- zstd of result.json
	besides BLOB NOT NULL -- what else is known of the run, JSON
);
CREATE TABLE IF NOT EXISTS run_texts (
	seq INTEGER PRIMARY KEY, -- of the run
	texts TEXT NOT NULL -- all in small letters, U+001F between
);
CREATE TABLE IF NOT EXISTS former_records (
	id TEXT NOT NULL,
	record_hash TEXT NOT NULL,
	replaced INTEGER NOT NULL, -- Unix milliseconds
	record BLOB NOT NULL,
	besides BLOB NOT NULL,
	PRIMARY KEY (id, record_hash)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS former_records_replaced ON former_records (replaced);
CREATE TABLE IF NOT EXISTS removed_runs (
	seq INTEGER PRIMARY KEY, -- of the removal
	id TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS run_fields (
	name TEXT PRIMARY KEY,
	free INTEGER NOT NULL,
	numbers INTEGER NOT NULL, -- some run had a number there
	texts INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS presets (
	name TEXT PRIMARY KEY,
	filter TEXT NOT NULL,
	view TEXT NOT NULL,
	changed INTEGER NOT NULL -- Unix milliseconds
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS store_numbers (
	name TEXT PRIMARY KEY,
	value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO store_numbers (name, value) VALUES ('seq', 0) ON CONFLICT DO NOTHING;
