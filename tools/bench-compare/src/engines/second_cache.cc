// A block cache of RocksDB with a compressed one below it, for strings of options: strandline-second://BYTES/BYTES/COMPRESSION.
// RocksDB makes such caches, but neither its strings nor its interface for C can name one.

#include <memory>
#include <string>

#include "rocksdb/advanced_cache.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/secondary_cache.h"
#include "rocksdb/utilities/object_registry.h"

namespace {

using ROCKSDB_NAMESPACE::Cache;
using ROCKSDB_NAMESPACE::CacheWrapper;

const char kName[] = "strandline-second";
const char kBehindName[] = "://";

// The registry takes objects that have one owner, and RocksDB's makers of caches return shared ones.
class Owned final : public CacheWrapper {
 public:
  using CacheWrapper::CacheWrapper;
  const char* Name() const override { return target_->Name(); }
  std::string GetPrintableOptions() const override { return target_->GetPrintableOptions(); }
};

Cache* Make(const std::string& target, std::unique_ptr<Cache>* guard, std::string* error) {
  const std::string words = target.substr(sizeof(kName) + sizeof(kBehindName) - 2);
  const size_t first = words.find('/');
  const size_t second = first == std::string::npos ? first : words.find('/', first + 1);
  if (second == std::string::npos) {
    *error = "three words are wanted, with / between them: " + target;
    return nullptr;
  }
  // Its own text of a secondary cache.
  const std::string below = "compressed_secondary_cache://capacity=" +
                            words.substr(first + 1, second - first - 1) +
                            ";compression_type=" + words.substr(second + 1);
  ROCKSDB_NAMESPACE::HyperClockCacheOptions options(std::stoull(words.substr(0, first)), 0);
  const auto made = ROCKSDB_NAMESPACE::SecondaryCache::CreateFromString(
      ROCKSDB_NAMESPACE::ConfigOptions(), below, &options.secondary_cache);
  if (!made.ok()) {
    *error = made.ToString();
    return nullptr;
  }
  guard->reset(new Owned(options.MakeSharedCache()));
  return guard->get();
}

// Before main, and this file is linked as an object, so that it is not left out: nothing calls it.
const bool kRegistered = [] {
  auto library = ROCKSDB_NAMESPACE::ObjectRegistry::Default()->AddLibrary("strandline-bench-compare");
  using Entry = ROCKSDB_NAMESPACE::ObjectLibrary::PatternEntry;
  library->AddFactory<Cache>(Entry(kName, false).AddSeparator(kBehindName), Make);
  return true;
}();

}  // namespace
