-- +goose Up
CREATE TABLE IF NOT EXISTS records (
	seq bigint PRIMARY KEY, -- of the run
	record bytea NOT NULL, -- zstd of result.json
	besides bytea NOT NULL -- what else is known of the run, JSON
);
CREATE TABLE IF NOT EXISTS run_texts (
	seq bigint PRIMARY KEY, -- of the run
	texts text COLLATE "C" NOT NULL -- all in small letters, U+001F between
);
CREATE TABLE IF NOT EXISTS former_records (
	id text COLLATE "C" NOT NULL,
	record_hash text COLLATE "C" NOT NULL,
	replaced bigint NOT NULL, -- Unix milliseconds
	record bytea NOT NULL,
	besides bytea NOT NULL,
	PRIMARY KEY (id, record_hash)
);
CREATE INDEX IF NOT EXISTS former_records_replaced ON former_records (replaced);
CREATE TABLE IF NOT EXISTS removed_runs (
	seq bigint PRIMARY KEY, -- of the removal
	id text COLLATE "C" NOT NULL
);
CREATE TABLE IF NOT EXISTS run_fields (
	name text COLLATE "C" PRIMARY KEY,
	free bigint NOT NULL,
	numbers bigint NOT NULL, -- some run had a number there
	texts bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS presets (
	name text COLLATE "C" PRIMARY KEY,
	filter text COLLATE "C" NOT NULL,
	view text COLLATE "C" NOT NULL,
	changed bigint NOT NULL -- Unix milliseconds
);
CREATE TABLE IF NOT EXISTS store_numbers (
	name text COLLATE "C" PRIMARY KEY,
	value bigint NOT NULL
);
INSERT INTO store_numbers (name, value) VALUES ('seq', 0) ON CONFLICT DO NOTHING;
ALTER TABLE records ALTER COLUMN record SET STORAGE EXTERNAL; -- compressed already
ALTER TABLE former_records ALTER COLUMN record SET STORAGE EXTERNAL;
