/* A program in C that calls traced functions of a library in Rust, and has no other contact with the recorder. */
#include <stdint.h>

uint64_t builds_work(uint32_t rounds);
uint32_t builds_exported(uint32_t number);
void builds_print_counts(void);

int main(void)
{
	if (builds_work(40) == 0 || builds_exported(1) != 2)
		return 1;
	builds_print_counts();
	return 0;
}
