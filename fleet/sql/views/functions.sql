-- Each function once.
SELECT function_key, MAX(program) AS program, MAX(name) AS name, MAX(file) AS file, MAX(line) AS line
FROM raw_functions
GROUP BY function_key
